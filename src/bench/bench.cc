// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/buffer.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace fovea {
namespace {

// A copy whose stores go past the caches, so that the target is not read first. A copy by memcpy
// does that or not, as the library sees fit. Whole cache lines; both pointers start on one.
void stream_copy(uint8_t* target, const uint8_t* source, int64_t bytes) {
#if defined(__SSE2__)
  for (int64_t i = 0; i < bytes; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(target + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(source + i)));
  _mm_sfence();
#else
  std::memcpy(target, source, static_cast<size_t>(bytes));
#endif
}

}  // namespace

std::vector<BenchEntry>& bench_entries() {
  static std::vector<BenchEntry> entries;
  return entries;
}

double Bench::median_ms(const std::function<void()>& body, int min_calls, double budget_ms) {
  using Clock = std::chrono::steady_clock;
  body();  // pages and caches as they are in use
  std::vector<double> times_ms;
  double total_ms = 0;
  while (static_cast<int>(times_ms.size()) < min_calls || total_ms < budget_ms) {
    const auto start = Clock::now();
    body();
    times_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    total_ms += times_ms.back();
  }
  std::nth_element(times_ms.begin(), times_ms.begin() + static_cast<long>(times_ms.size() / 2),
                   times_ms.end());
  return times_ms[times_ms.size() / 2];
}

double Bench::copy_bytes_per_ms() {
  if (copy_bytes_per_ms_ > 0) return copy_bytes_per_ms_;
  constexpr int64_t kBytes = int64_t{256} << 20;  // far larger than any cache
  constexpr int64_t kChunk = int64_t{1} << 20;
  constexpr int64_t kLine = 64;
  const auto memory = std::make_unique<uint8_t[]>(2 * kBytes + kLine);
  uint8_t* source = memory.get() + (kLine - reinterpret_cast<uintptr_t>(memory.get()) % kLine);
  uint8_t* target = source + kBytes;
  const double plain_ms = median_ms([&] {
    threads.for_each(kBytes, kChunk, [&](int64_t begin, int64_t end) {
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    });
  });
  const double streamed_ms = median_ms([&] {
    threads.for_each(kBytes, kChunk, [&](int64_t begin, int64_t end) {
      stream_copy(target + begin, source + begin, end - begin);
    });
  });
  copy_bytes_per_ms_ = 2.0 * kBytes / std::min(plain_ms, streamed_ms);
  return copy_bytes_per_ms_;
}

double Bench::read_bytes_per_ms() {
  if (read_bytes_per_ms_ > 0) return read_bytes_per_ms_;
  constexpr int64_t kWords = int64_t{64} << 20;  // 512 MiB
  Buffer<uint64_t> words(kWords);
  std::atomic<uint64_t> sum = 0;
  threads.for_each(kWords, kWords / 64, [&](int64_t begin, int64_t end) {
    std::fill(words.begin() + begin, words.begin() + end, begin);
  });
  const double ms = median_ms([&] {
    threads.for_each(kWords, int64_t{1} << 17, [&](int64_t begin, int64_t end) {
      // Lanes of their own, so that the compiler may add vectors and no addition waits for another.
      std::array<uint64_t, 32> lanes{};
      for (int64_t i = begin; i < end; i += 32)
        for (size_t lane = 0; lane < 32; ++lane) lanes[lane] += words[i + lane];
      for (const uint64_t lane : lanes) sum += lane;
    });
  });
  read_bytes_per_ms_ = kWords * sizeof(uint64_t) / ms;
  return read_bytes_per_ms_;
}

void Bench::add(bool verified, BenchRow row) {
  if (!verified) {
    unverified.push_back(row.name);
    return;
  }
  if (progress) progress(row.name);
  rows.push_back(std::move(row));
}

}  // namespace fovea
