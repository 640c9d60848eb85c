// SPDX-License-Identifier: Apache-2.0
// Times the element-wise functions over a tower's hidden values and over one decode step's, against
// the bytes that a copy moves.
#include "ops/activation.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "bench/bench.h"

namespace fovea {
namespace {

constexpr int64_t kTowerValues = int64_t{4096} * 4096;
constexpr int64_t kStepValues = 6144;

struct Operation {
  const char* name;
  int arrays;  // read or written
  std::function<void(Threads&, float* x, const float* y, int64_t count)> fast;
  std::function<void(float* x, const float* y, int64_t count)> reference;
};

const Operation kOperations[] = {
    {"gelu-tanh", 2,
     [](Threads& threads, float* x, const float*, int64_t n) { gelu_tanh(threads, x, n); },
     [](float* x, const float*, int64_t n) { gelu_tanh_reference(x, n); }},
    {"gelu", 2, [](Threads& threads, float* x, const float*, int64_t n) { gelu(threads, x, n); },
     [](float* x, const float*, int64_t n) { gelu_reference(x, n); }},
    {"silu-multiply", 3,
     [](Threads& threads, float* x, const float* y, int64_t n) { silu_multiply(threads, x, y, n); },
     [](float* x, const float* y, int64_t n) { silu_multiply_reference(x, y, n); }},
    {"add", 3, [](Threads& threads, float* x, const float* y, int64_t n) { add(threads, x, y, n); },
     [](float* x, const float* y, int64_t n) {
       for (int64_t i = 0; i < n; ++i) x[i] += y[i];
     }},
};

bool right(Threads& threads, const Operation& operation, const std::vector<float>& input,
           const std::vector<float>& y) {
  const auto count = static_cast<int64_t>(input.size());
  std::vector<float> got = input;
  std::vector<float> expected = input;
  operation.fast(threads, got.data(), y.data(), count);
  operation.reference(expected.data(), y.data(), count);
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= 1e-6f * (1 + std::abs(expected[i])))) return false;
  return true;
}

void time_operation(Bench& bench, const Operation& operation, int64_t count) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = i < 100'000 ? normal(random) : x[i % 100'000];
  const std::vector<float> y(x.rbegin(), x.rend());
  const bool verified = right(bench.threads, operation, x, y);
  const double ms =
      Bench::median_ms([&] { operation.fast(bench.threads, x.data(), y.data(), count); });
  const double bytes = 4.0 * operation.arrays * static_cast<double>(count);
  BenchRow row{.name = fmt::format("{}/{}", operation.name, count),
               .value = ms,
               .unit = "ms",
               .limit = bytes / bench.copy_bytes_per_ms(),
               .note = fmt::format("{:.1f} GB/s", bytes / ms / 1e6)};
  if (count == kStepValues) row.limit = {};  // it stays in the caches
  bench.add(verified, row);
}

void run_activations(Bench& bench) {
  for (const Operation& operation : kOperations)
    for (const int64_t count : {kStepValues, kTowerValues}) time_operation(bench, operation, count);
}

const BenchRegistration kRegistration("ops", "activation", run_activations);

}  // namespace
}  // namespace fovea
