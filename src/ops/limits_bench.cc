// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/limits_bench.cc"
#include "ops/limits_bench.h"

#include <atomic>

#include "base/bench.h"
#include "ops/unroll.h"

#include <hwy/foreach_target.h>  // NOLINT: must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChains = 12;  // more than latency times units of any CPU, fewer than its registers

// Operations done; `sink` keeps the compiler from leaving them out.
double multiply_adds(int64_t steps, float* sink) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kChains];
  FOVEA_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Set(d, 0.001F * static_cast<float>(i));
  auto factor = hn::Set(d, 0.999F);
  const auto more = hn::Set(d, *sink);
  for (int64_t step = 0; step < steps; ++step) {
    FOVEA_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = hn::MulAdd(sums[i], factor, more);
  }
  auto all = sums[0];
  FOVEA_UNROLL
  for (int i = 1; i < kChains; ++i) all = hn::Add(all, sums[i]);
  *sink = hn::GetLane(all);
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(steps);
}

uint64_t sum_words(const uint64_t* words, int64_t count) {
  const hn::ScalableTag<uint64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[8];
  FOVEA_UNROLL
  for (int i = 0; i < 8; ++i) sums[i] = hn::Zero(d);
  for (int64_t w = 0; w + 8 * lanes <= count; w += 8 * lanes) {
    FOVEA_UNROLL
    for (int i = 0; i < 8; ++i) sums[i] = hn::Add(sums[i], hn::LoadU(d, words + w + i * lanes));
  }
  auto all = sums[0];
  FOVEA_UNROLL
  for (int i = 1; i < 8; ++i) all = hn::Add(all, sums[i]);
  return hn::GetLane(hn::SumOfLanes(d, all));
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(multiply_adds);
HWY_EXPORT(sum_words);

double multiply_adds_per_ms(Threads& threads) {
  constexpr int64_t kSteps = 400'000;
  std::atomic<double> operations = 0;
  const double ms = Bench::median_ms(
      [&] {
        operations = 0;
        threads.for_each(threads.size(), 1, [&](int64_t, int64_t) {
          float sink = 0.001F;
          const double done = HWY_DYNAMIC_DISPATCH(multiply_adds)(kSteps, &sink);
          // Never true; the compiler does not know.
          operations.fetch_add(sink == 12345.0F ? 0 : done);
        });
      },
      20, 200);
  return operations.load() / ms;
}

void read_all(Threads& threads, const void* data, size_t bytes) {
  constexpr int64_t kChunkWords = 1 << 14;
  static std::atomic<uint64_t> sink = 0;  // so that the sum is needed
  const auto* words = static_cast<const uint64_t*>(data);
  threads.for_each(static_cast<int64_t>(bytes / 8), kChunkWords, [&](int64_t begin, int64_t end) {
    sink.fetch_add(HWY_DYNAMIC_DISPATCH(sum_words)(words + begin, end - begin));
  });
}

}  // namespace fovea
#endif
