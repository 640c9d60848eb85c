// SPDX-License-Identifier: Apache-2.0
#include "ops/key_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/int8_layout.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

constexpr int kDims[] = {4, 8, 12, 20, 64, 72, 128, 256};

struct Stored {
  Stored(KeyFormat its_format, int64_t its_rows, int its_dim)
      : format(its_format),
        rows(its_rows),
        dim(its_dim),
        values(static_cast<size_t>(rows * dim * value_bytes(format)), std::byte{0xAB}),
        scales(static_cast<size_t>(rows), 0xABAB) {}

  std::vector<float> widened(bool by_reference = false) const {
    auto out = poisoned(static_cast<size_t>(rows * dim));
    (by_reference ? widen_rows_reference : widen_rows)(format, {values.data(), scales.data()}, rows,
                                                       dim, out.data());
    return out;
  }

  KeyFormat format;
  int64_t rows;
  int dim;
  std::vector<std::byte> values;
  std::vector<uint16_t> scales;
};

Stored stored(KeyFormat format, const std::vector<float>& rows, int64_t stride, int dim,
              bool by_reference = false) {
  Stored to(format, static_cast<int64_t>(rows.size()) / stride, dim);
  (by_reference ? narrow_rows_reference : narrow_rows)(format, rows.data(), stride, to.rows, dim,
                                                       to.values.data(), to.scales.data());
  return to;
}

TEST(KeyFormat, TableIsInTheOrderOfTheFormatsAndNamesTheirBytes) {
  for (const KeyFormatRow& row : key_formats()) {
    EXPECT_EQ(&row_of(row.format), &row);
    EXPECT_EQ(row.value_bytes, value_bytes(row.format)) << row.name;
    EXPECT_EQ(row.scale_bytes, scale_bytes(row.format)) << row.name;
  }
}

// The same bits, so that a memory written by one machine's form is what another's would be.
TEST(KeyFormat, RowsHaveTheBitsOfTheReferenceOnEveryTarget) {
  on_every_target([](const std::string& target) {
    for (const KeyFormatRow& row : key_formats()) {
      for (const int dim : kDims) {
        std::mt19937 random(3);
        const int64_t stride = dim + 5;
        auto rows = random_values(static_cast<size_t>(stride) * 7, random, 3);
        std::fill_n(rows.begin() + 2 * stride, dim, 0.0f);
        for (int d = 0; d < dim; ++d) rows[static_cast<size_t>(3 * stride + d)] *= 1e-4f;
        for (int d = 1; d < dim; ++d) rows[static_cast<size_t>(4 * stride + d)] *= 1e-3f;
        for (int d = 0; d < dim; ++d) rows[static_cast<size_t>(5 * stride + d)] *= 1e-33f;
        const Stored got = stored(row.format, rows, stride, dim);
        const Stored expected = stored(row.format, rows, stride, dim, true);
        ASSERT_EQ(got.values, expected.values) << target << ", " << row.name << ", " << dim;
        ASSERT_EQ(got.scales, expected.scales) << target << ", " << row.name << ", " << dim;
        ASSERT_TRUE(same_bits(got.widened(), expected.widened(true)))
            << target << ", " << row.name << ", " << dim;
      }
    }
  });
}

// Half a step of the format: of bf16 2^-8 and of e4m3 2^-4 of the value, of whole numbers half of
// the scale. A scale is rounded up by 1/128 at most, and what e4m3 has below 2^-6 of it lies apart
// by 2^-9.
TEST(KeyFormat, RowsStayWithinHalfAStep) {
  std::mt19937 random(5);
  constexpr int kDim = 64;
  const auto rows = random_values(kDim * 50, random, 2);
  for (const KeyFormatRow& row : key_formats()) {
    const auto widened = stored(row.format, rows, kDim, kDim).widened();
    for (size_t i = 0; i < rows.size(); ++i) {
      float most = 0;
      for (size_t d = i / kDim * kDim; d < (i / kDim + 1) * kDim; ++d)
        most = std::max(most, std::abs(rows[d]));
      const float step = most / std::max(row.largest, 1.0f) * (1 + 1 / 128.0f);
      const float bound = row.format == KeyFormat::kF32    ? 0
                          : row.format == KeyFormat::kBf16 ? std::abs(rows[i]) / 256
                          : row.format == KeyFormat::kInt8
                              ? step / 2 * 1.00001f
                              : std::max(std::abs(rows[i]) / 16, step / 1024) * 1.00001f;
      ASSERT_LE(std::abs(widened[i] - rows[i]), bound) << row.name << ", at " << i;
    }
  }
}

TEST(KeyFormat, EveryNumberOfAFormatIsReadBackAsItself) {
  on_every_target([](const std::string& target) {
    for (const KeyFormat format : {KeyFormat::kInt8, KeyFormat::kFp8}) {
      Stored all(format, 1, 256);
      for (size_t i = 0; i < 256; ++i) all.values[i] = static_cast<std::byte>(i);
      if (format == KeyFormat::kInt8) all.values[128] = std::byte{0};  // -128 is not written
      if (format == KeyFormat::kFp8) all.values[127] = all.values[255] = std::byte{0};
      all.scales[0] = 0x3F80;  // 1
      const auto values = all.widened();
      EXPECT_TRUE(same_bits(values, all.widened(true))) << target;
      const Stored again = stored(format, values, 256, 256);
      EXPECT_EQ(again.values, all.values) << target << ", " << row_of(format).name;
      EXPECT_EQ(again.scales, all.scales) << target << ", " << row_of(format).name;
    }
  });
}

TEST(KeyFormat, WhatIsNotFiniteStaysSo) {
  on_every_target([](const std::string& target) {
    for (const KeyFormatRow& row : key_formats()) {
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        std::vector<float> rows(24, 1.0f);
        rows[13] = bad;
        for (const bool by_reference : {false, true}) {
          const auto widened = stored(row.format, rows, 12, 12, by_reference).widened();
          EXPECT_FALSE(std::isfinite(widened[13])) << target << ", " << row.name;
          EXPECT_NEAR(widened[3], 1, 0.01) << target << ", " << row.name;
        }
      }
    }
  });
}

TEST(KeyFormats, AreReadByNameForEqualPartsOfTheLayers) {
  const auto formats = parse_key_formats("f32,int8", 5);
  ASSERT_TRUE(formats);
  EXPECT_EQ(formats->text(), "f32,int8");
  EXPECT_EQ(formats->of(2, 5), KeyFormat::kF32);
  EXPECT_EQ(formats->of(3, 5), KeyFormat::kInt8);
  EXPECT_EQ(*parse_key_formats("", 5), KeyFormats());
  EXPECT_EQ(*parse_key_formats("f32,f32", 5), KeyFormats());
  EXPECT_EQ(parse_key_formats("fp8,fp8", 5)->text(), "fp8");
  for (const char* wrong : {"int4", "int8,", ",int8", "INT8", "int8,f32,bf16"})
    EXPECT_FALSE(parse_key_formats(wrong, 2)) << wrong;
  EXPECT_NE(parse_key_formats("int4", 2).error().message.find("f32, bf16, int8, fp8"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea
