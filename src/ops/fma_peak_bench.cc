// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "bench/bench.h"
#include "ops/fma_peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/fma_peak_bench.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains: as many as hide the latency of two units that take five cycles. Returns the
// number of operations, and a sum so that nothing is left out.
double MultiplyAndAdd(int64_t rounds, float* result) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f);
  const auto step = hn::Set(d, 0.001f);
  // All different, or the compiler would work out equal chains once.
  auto s0 = hn::Set(d, 0.1f), s1 = hn::Set(d, 0.2f), s2 = hn::Set(d, 0.3f), s3 = hn::Set(d, 0.4f);
  auto s4 = hn::Set(d, 0.5f), s5 = hn::Set(d, 0.6f), s6 = hn::Set(d, 0.7f), s7 = hn::Set(d, 0.8f);
  auto s8 = hn::Set(d, 1.1f), s9 = hn::Set(d, 1.2f), s10 = hn::Set(d, 1.3f), s11 = hn::Set(d, 1.4f);
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, factor, step);
    s1 = hn::MulAdd(s1, factor, step);
    s2 = hn::MulAdd(s2, factor, step);
    s3 = hn::MulAdd(s3, factor, step);
    s4 = hn::MulAdd(s4, factor, step);
    s5 = hn::MulAdd(s5, factor, step);
    s6 = hn::MulAdd(s6, factor, step);
    s7 = hn::MulAdd(s7, factor, step);
    s8 = hn::MulAdd(s8, factor, step);
    s9 = hn::MulAdd(s9, factor, step);
    s10 = hn::MulAdd(s10, factor, step);
    s11 = hn::MulAdd(s11, factor, step);
  }
  const auto even = hn::Add(hn::Add(hn::Add(s0, s2), hn::Add(s4, s6)), hn::Add(s8, s10));
  const auto odd = hn::Add(hn::Add(hn::Add(s1, s3), hn::Add(s5, s7)), hn::Add(s9, s11));
  *result = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  return 2.0 * 12 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace
}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {
namespace {

HWY_EXPORT(MultiplyAndAdd);

}  // namespace

double fma_peak_gflops(Threads& threads) {
  constexpr int64_t kRounds = 20'000;
  constexpr int kRuns = 8;
  const int64_t tasks = int64_t{32} * threads.size();
  double best = 0;
  std::atomic<float> kept = 0;
  for (int run = 0; run < kRuns; ++run) {
    float warm = 0;
    const double operations = HWY_DYNAMIC_DISPATCH(MultiplyAndAdd)(kRounds, &warm);
    const auto start = std::chrono::steady_clock::now();
    threads.for_each(tasks, 1, [&](int64_t, int64_t) {
      float result = 0;
      HWY_DYNAMIC_DISPATCH(MultiplyAndAdd)(kRounds, &result);
      kept.store(result, std::memory_order_relaxed);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, operations * static_cast<double>(tasks) / seconds.count() / 1e9);
  }
  return best;
}

namespace {

void run_peak(Bench& bench) {
  bench.add(true, {.name = "fma-peak",
                   .value = fma_peak_gflops(bench.threads),
                   .unit = "GFLOP/s",
                   .limit = {},
                   .note = "multiply-adds in registers alone"});
}

const BenchRegistration kRegistration("ops", "0-fma-peak", run_peak);

}  // namespace
}  // namespace fovea
#endif  // HWY_ONCE
