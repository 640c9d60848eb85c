// SPDX-License-Identifier: Apache-2.0
// Times the conversion of bf16 weights into memory that was touched before, against reading them.
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/bench.h"
#include "base/buffer.h"
#include "ops/matrix.h"

namespace fovea {
namespace {

constexpr int64_t kRows = 49152;
constexpr int64_t kCols = 2048;
constexpr int64_t kPieceRows = 128;  // 512 KiB, as a loader hands them over

bool is_near(const Matrix& matrix, const WeightSource& source) {
  std::vector<float> got(kCols);
  std::vector<float> expected(kCols);
  for (int64_t row = 0; row < kRows; row += 4099) {
    matrix.row(row, got.data());
    read_weights(source, row * kCols, (row + 1) * kCols, expected.data());
    for (int64_t c = 0; c < kCols; ++c) {
      const auto i = static_cast<size_t>(c);
      // Half a step of the block's scale, which is at most 1.01 / 127 of the largest value.
      if (std::abs(got[i] - expected[i]) > 1.02F / 254) return false;
    }
  }
  return true;
}

void bench_convert(Bench& bench) {
  Buffer<uint16_t> weights(kRows * kCols);
  bench.threads.for_each(kRows, kPieceRows, [&](int64_t begin, int64_t end) {
    std::mt19937 random(static_cast<uint32_t>(begin));
    for (int64_t i = begin * kCols; i < end * kCols; ++i)  // sizes from 1/128 to 1, both signs
      weights[static_cast<size_t>(i)] = static_cast<uint16_t>(0x3C00 + random() % 0x380) ^
                                        static_cast<uint16_t>((random() & 1) << 15);
  });
  const WeightSource source{WeightSource::Type::kBf16, weights.data()};
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kInt8}) {
    Matrix matrix(kRows, kCols, format);
    const double ms = Bench::median_ms([&] {
      bench.threads.for_each(kRows, kPieceRows, [&](int64_t begin, int64_t end) {
        matrix.pack_rows(source, begin, end);
      });
    });
    const double bytes = static_cast<double>(weights.size()) * sizeof(uint16_t);
    bench.add(
        is_near(matrix, source),
        {fmt::format("convert/bf16-to-{}", weight_format_name(format)), ms, "ms",
         bytes / bench.read_bytes_per_ms(), fmt::format("{:.1f} GB/s read", bytes / ms / 1e6)});
  }
}

const BenchRegistration kRegistered("ops", "convert", bench_convert);

}  // namespace
}  // namespace fovea
