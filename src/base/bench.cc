// SPDX-License-Identifier: Apache-2.0
#include "base/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

namespace fovea {

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
  const auto source = std::make_unique<uint8_t[]>(kBytes);
  const auto target = std::make_unique<uint8_t[]>(kBytes);
  const double ms = median_ms([&] {
    threads.for_each(kBytes, kChunk, [&](int64_t begin, int64_t end) {
      std::memcpy(target.get() + begin, source.get() + begin, static_cast<size_t>(end - begin));
    });
  });
  copy_bytes_per_ms_ = 2.0 * kBytes / ms;
  return copy_bytes_per_ms_;
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
