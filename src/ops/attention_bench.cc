// SPDX-License-Identifier: Apache-2.0
// Times attention in the shapes of a 2B model, counting the operations of the two products alone,
// against multiply-adds in registers; decode steps against the bytes that a copy moves.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/bench.h"
#include "ops/attention.h"
#include "ops/fma_peak.h"

namespace fovea {
namespace {

struct Shape {
  const char* name;
  int64_t queries;
  int64_t keys;
  int heads;
  int kv_heads;
  int head_dim;
  bool causal;
};

constexpr Shape kShapes[] = {{"tower-4096", 4096, 4096, 16, 16, 64, false},
                             {"tower-272", 272, 272, 16, 16, 64, false},
                             {"tower-128-of-384", 128, 384, 16, 16, 64, false},
                             {"prefill-512-of-512", 512, 512, 16, 8, 128, true},
                             {"prefill-512-of-1056", 512, 1056, 16, 8, 128, true},
                             {"decode-of-1", 1, 1, 16, 8, 128, true},
                             {"decode-of-128", 1, 128, 16, 8, 128, true},
                             {"decode-of-1056", 1, 1056, 16, 8, 128, true},
                             {"decode-of-4096", 1, 4096, 16, 8, 128, true}};

std::vector<float> random_values(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Some queries against the reference: all would take minutes.
bool right(const Shape& shape, const float* q, const KeyValues& kv, const AttentionParams& params,
           const float* got) {
  const int64_t stride = int64_t{shape.heads} * shape.head_dim;
  std::vector<float> expected(static_cast<size_t>(stride));
  for (const int64_t query : {int64_t{0}, shape.queries / 2, shape.queries - 1}) {
    AttentionParams one = params;
    one.first_query += query;
    attention_reference(q + query * stride, stride, 1, kv, one, expected.data(), stride);
    for (int64_t i = 0; i < stride; ++i)
      if (!(std::abs(got[query * stride + i] - expected[static_cast<size_t>(i)]) < 1e-5f))
        return false;
  }
  return true;
}

void time_shape(Bench& bench, const Shape& shape, double peak_gflops) {
  std::mt19937 random(3);
  const int64_t q_stride = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv_stride = int64_t{shape.kv_heads} * shape.head_dim;
  const auto q = random_values(static_cast<size_t>(shape.queries * q_stride), random);
  KeyValues kv(shape.kv_heads, shape.head_dim);
  kv.reserve(shape.keys);
  {
    const auto k = random_values(static_cast<size_t>(shape.keys * kv_stride), random);
    const auto v = random_values(static_cast<size_t>(shape.keys * kv_stride), random);
    kv.append(k.data(), kv_stride, v.data(), kv_stride, shape.keys);
  }
  const AttentionParams params{.heads = shape.heads,
                               .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
                               .causal = shape.causal,
                               .first_query = shape.keys - shape.queries};
  std::vector<float> out(static_cast<size_t>(shape.queries * q_stride));
  const auto attend = [&] {
    attention(bench.threads, q.data(), q_stride, shape.queries, kv, params, out.data(), q_stride);
  };
  attend();
  const bool verified = right(shape, q.data(), kv, params, out.data());
  const double ms = Bench::median_ms(attend);
  const double seen =
      shape.causal ? static_cast<double>(shape.keys) - static_cast<double>(shape.queries - 1) / 2
                   : static_cast<double>(shape.keys);
  const double gflop = 4e-9 * static_cast<double>(shape.queries * q_stride) * seen;
  BenchRow row{.name = fmt::format("attention/{}/{}", shape.name,
                                   hwy::TargetName(*hwy::SupportedAndGeneratedTargets().begin())),
               .value = ms,
               .unit = "ms",
               .limit = gflop / peak_gflops * 1e3,
               .note = fmt::format("{:.1f} GFLOP/s", gflop / ms * 1e3)};
  if (shape.queries == 1) {
    row.limit = {};
    row.note = fmt::format("{:.1f} GB/s read", static_cast<double>(kv.bytes()) / ms / 1e6);
  }
  bench.add(verified, row);
}

void run_attention(Bench& bench) {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  targets.resize(std::min<size_t>(targets.size(), 1));  // the best one
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    if (target == HWY_AVX2 && target != targets.front()) targets.push_back(target);
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    const double peak_gflops = fma_peak_gflops(bench.threads);
    for (const Shape& shape : kShapes) time_shape(bench, shape, peak_gflops);
  }
  hwy::SetSupportedTargetsForTest(0);
}

const BenchRegistration kRegistration("ops", "attention", run_attention);

}  // namespace
}  // namespace fovea
