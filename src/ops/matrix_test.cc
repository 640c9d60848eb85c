// SPDX-License-Identifier: Apache-2.0
#include "ops/matrix.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "ops/test_matmul.h"

namespace fovea {
namespace {

class MatrixOnTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, MatrixOnTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& test) { return hwy::TargetName(test.param); });

double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 0x3FF;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

TEST_P(MatrixOnTarget, EveryFiniteF16AndBf16IsReadExactly) {
  std::vector<uint16_t> patterns;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    if (((bits >> 10) & 31) != 31) patterns.push_back(static_cast<uint16_t>(bits));
  std::vector<float> values(patterns.size());
  const auto count = static_cast<int64_t>(patterns.size());
  read_weights({WeightSource::Type::kF16, patterns.data()}, 0, count, values.data());
  for (size_t i = 0; i < patterns.size(); ++i)
    ASSERT_EQ(values[i], half_value(patterns[i])) << patterns[i];
  read_weights({WeightSource::Type::kBf16, patterns.data()}, 0, count, values.data());
  for (size_t i = 0; i < patterns.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), uint32_t{patterns[i]} << 16) << patterns[i];
}

TEST_P(MatrixOnTarget, ReadsAnyRangeAndWritesNothingBehindIt) {
  std::mt19937 random(1);
  const std::vector<float> source = gaussian(200, random);
  for (const int64_t begin : {0, 1, 7}) {
    for (int64_t count = 0; count < 70; ++count) {
      std::vector<float> out(80, -3);
      read_weights({WeightSource::Type::kF32, source.data()}, begin, begin + count, out.data());
      for (int64_t i = 0; i < 80; ++i)
        ASSERT_EQ(out[static_cast<size_t>(i)],
                  i < count ? source[static_cast<size_t>(begin + i)] : -3)
            << begin << " " << count;
    }
  }
}

TEST_P(MatrixOnTarget, Bf16IsRoundedToTheNearestWithTiesToEven) {
  std::mt19937 random(2);
  std::vector<float> source = gaussian(1000, random);
  source[3] = std::bit_cast<float>(0x3F808000U);  // halfway: down to the even one
  source[4] = std::bit_cast<float>(0x3F818000U);  // halfway: up
  const Matrix matrix = packed(10, 100, WeightFormat::kBf16, source);
  const auto* stored = static_cast<const uint16_t*>(matrix.values());
  for (size_t i = 0; i < source.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(source[i]);
    ASSERT_EQ(stored[i], (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << i;
  }
  EXPECT_EQ(stored[3], 0x3F80);
  EXPECT_EQ(stored[4], 0x3F82);
}

// Half a step of the block: its largest size / 127, rounded up to bf16, which adds up to 1/128.
TEST_P(MatrixOnTarget, Int8IsWithinHalfAStepOfItsBlockFromAnySource) {
  std::mt19937 random(3);
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                                   {3, 8},
                                   {16, 64},
                                   {17, 65},
                                   {33, 130},
                                   {40, 512},
                                   {5, 63}}) {
    const std::vector<float> f32 = gaussian(rows * cols, random);
    std::vector<uint16_t> bf16(f32.size());
    for (size_t i = 0; i < f32.size(); ++i) bf16[i] = bf16_bits(f32[i] * 0.02F);
    for (const auto type :
         {WeightSource::Type::kF32, WeightSource::Type::kF16, WeightSource::Type::kBf16}) {
      // The upper half of an f32 is a value of f16 too, if another one.
      const WeightSource source{type, type == WeightSource::Type::kF32
                                          ? static_cast<const void*>(f32.data())
                                          : bf16.data()};
      std::vector<float> exact(f32.size());
      read_weights(source, 0, rows * cols, exact.data());
      Matrix matrix(rows, cols, WeightFormat::kInt8);
      std::memset(const_cast<void*>(matrix.values()), 0xA5, matrix.bytes());
      matrix.pack_rows(source, 0, rows);
      std::vector<float> row(static_cast<size_t>(cols) + 1, NAN);
      for (int64_t r = 0; r < rows; ++r) {
        matrix.row(r, row.data());
        ASSERT_TRUE(std::isnan(row.back()));
        const float* expected = exact.data() + r * cols;
        for (int64_t c = 0; c < cols; ++c) {
          const int64_t block = c / Matrix::kBlock * Matrix::kBlock;
          float most = 0;
          for (int64_t b = block; b < std::min(block + Matrix::kBlock, cols); ++b)
            most = std::max(most, std::abs(expected[b]));
          ASSERT_NEAR(row[static_cast<size_t>(c)], expected[c], most / 254 * 1.01)
              << rows << " x " << cols << " at " << r << ", " << c;
        }
      }
    }
  }
}

TEST(Matrix, RowsPackedInRangesByThreadsGiveTheSameBytes) {
  std::mt19937 random(4);
  const std::vector<float> source = gaussian(100 * 90, random);
  for (const WeightFormat format : kFormats) {
    const Matrix whole = packed(100, 90, format, source);
    Matrix parts(100, 90, format);
    std::thread other([&] { parts.pack_rows({WeightSource::Type::kF32, source.data()}, 48, 100); });
    parts.pack_rows({WeightSource::Type::kF32, source.data()}, 0, 48);
    other.join();
    std::vector<float> a(90);
    std::vector<float> b(90);
    for (int64_t r = 0; r < 100; ++r) {
      whole.row(r, a.data());
      parts.row(r, b.data());
      ASSERT_EQ(a, b) << weight_format_name(format) << " " << r;
    }
  }
}

TEST(Matrix, ZerosStayZeroInEveryFormat) {
  for (const WeightFormat format : kFormats) {
    const Matrix matrix = packed(3, 70, format, std::vector<float>(210, 0.0F));
    std::vector<float> row(70, 5);
    matrix.row(2, row.data());
    EXPECT_EQ(row, std::vector<float>(70, 0.0F));
  }
}

TEST(Matrix, BytesAreThoseOfItsFormat) {
  EXPECT_EQ(Matrix(32, 128, WeightFormat::kF32).bytes(), 32 * 128 * 4);
  EXPECT_EQ(Matrix(32, 128, WeightFormat::kBf16).bytes(), 32 * 128 * 2);
  // A byte for a weight and two for the scale of 64.
  EXPECT_EQ(Matrix(32, 128, WeightFormat::kInt8).bytes(), 32 * 128 + 32 * 128 / 64 * 2);
  const float value = 2;
  EXPECT_EQ(Matrix::in_place(1, 1, {WeightSource::Type::kF32, &value}).values(), &value);
}

}  // namespace
}  // namespace fovea
