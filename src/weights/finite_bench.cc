// SPDX-License-Identifier: Apache-2.0
// What looking for NaN costs: reading 256 MiB of weights, against a plain copy's bandwidth.
#include <fmt/format.h>

#include <atomic>

#include "bench/bench.h"
#include "weights/finite.h"

namespace fovea {
namespace {

void bench_finite(Bench& bench) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  constexpr int64_t kChunkBytes = 512 * 1024;  // as Loader has it
  std::vector<uint16_t> values(kBytes / 2);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint16_t>((i * 40503u >> 4) & 0xBFFF);  // finite in all three types
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    const int64_t value_bytes = dtype_bits(dtype) / 8;
    const auto look = [&] {
      std::atomic<int64_t> found = 0;
      bench.threads.for_each(kBytes, kChunkBytes, [&](int64_t begin, int64_t end) {
        const auto* data = reinterpret_cast<const std::byte*>(values.data()) + begin;
        if (first_not_finite(dtype, data, (end - begin) / value_bytes) >= 0) ++found;
      });
      return found.load();
    };
    const int64_t clean = look();
    const uint16_t kept = values[12'345'679];
    values[12'345'679] = 0x7FFF;  // NaN in all three types (as the upper half of a float)
    const bool verified = clean == 0 && look() == 1;
    values[12'345'679] = kept;
    const double ms = Bench::median_ms(look);
    const double limit_ms = static_cast<double>(kBytes) / bench.copy_bytes_per_ms();
    bench.add(verified, {.name = fmt::format("weights/finite/{}", dtype_name(dtype)),
                         .value = ms,
                         .unit = "ms",
                         .limit = limit_ms,
                         .note = fmt::format("{:.1f} GB/s", kBytes / ms / 1e6)});
  }
}

const BenchRegistration kFinite("weights", "finite", bench_finite);

}  // namespace
}  // namespace fovea
