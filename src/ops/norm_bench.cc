// SPDX-License-Identifier: Apache-2.0
// Times the norms and the rotary embedding over a tower's rows and over one decode step's, against
// the bytes that a copy moves.
#include "ops/norm.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "bench/bench.h"
#include "ops/rope.h"

namespace fovea {
namespace {

// One call, its reference, and what it reads and writes.
void time_rows(Bench& bench, const std::string& name, bool far, double bytes,
               const std::vector<float>& got, const std::vector<float>& expected,
               const std::function<void()>& fast) {
  fast();
  bool verified = true;
  for (size_t i = 0; i < got.size(); ++i)
    verified &= std::abs(got[i] - expected[i]) <= 3e-6f * (1 + std::abs(expected[i]));
  const double ms = Bench::median_ms(fast);
  BenchRow row{.name = name,
               .value = ms,
               .unit = "ms",
               .limit = bytes / bench.copy_bytes_per_ms(),
               .note = fmt::format("{:.1f} GB/s", bytes / ms / 1e6)};
  if (!far) row.limit = {};  // it stays in the caches
  bench.add(verified, row);
}

void time_size(Bench& bench, int64_t rows, int64_t cols, int heads) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 2);
  const auto fill = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  };
  const auto x = fill(rows * cols);
  const auto weight = fill(cols);
  const auto bias = fill(cols);
  const int64_t head_dim = cols / heads;
  const double bytes = 8.0 * static_cast<double>(rows * cols);
  const bool far = rows > 64;
  const std::string size = fmt::format("{}x{}", rows, cols);
  std::vector<float> y(x.size());
  std::vector<float> expected(x.size());

  layer_norm_reference(x.data(), rows, cols, weight.data(), bias.data(), 1e-6f, expected.data());
  time_rows(bench, "layer-norm/" + size, far, bytes, y, expected, [&] {
    layer_norm(bench.threads, x.data(), rows, cols, weight.data(), bias.data(), 1e-6f, y.data());
  });
  rms_norm_reference(x.data(), cols, rows, heads, head_dim, weight.data(), 1e-6f, expected.data(),
                     cols);
  time_rows(bench, fmt::format("rms-norm/{}-in-{}", size, heads), far, bytes, y, expected, [&] {
    rms_norm(bench.threads, x.data(), cols, rows, heads, head_dim, weight.data(), 1e-6f, y.data(),
             cols);
  });

  std::vector<float> cos = fill(rows * head_dim / 2);
  std::vector<float> sin = cos;
  for (size_t i = 0; i < cos.size(); ++i) {
    sin[i] = std::sin(cos[i]);
    cos[i] = std::cos(cos[i]);
  }
  expected = x;
  rotate_reference(expected.data(), cols, rows, heads, static_cast<int>(head_dim), cos.data(),
                   sin.data());
  y = x;
  time_rows(bench, fmt::format("rotate/{}-in-{}", size, heads), far, bytes, y, expected, [&] {
    rotate(bench.threads, y.data(), cols, rows, heads, static_cast<int>(head_dim), cos.data(),
           sin.data());
  });
}

void run_norms(Bench& bench) {
  time_size(bench, 1, 2048, 16);
  time_size(bench, 4096, 1024, 16);
}

const BenchRegistration kRegistration("ops", "norm", run_norms);

}  // namespace
}  // namespace fovea
