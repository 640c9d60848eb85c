// SPDX-License-Identifier: Apache-2.0
#include "ops/matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace fovea {
namespace {

float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::ldexp(float(fraction), -24)));
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

float value_at(const WeightSource& source, int64_t index) {
  const char* values = static_cast<const char*>(source.values);
  if (source.type == WeightSource::Type::kF32) {
    float value = 0;
    std::memcpy(&value, values + index * 4, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, values + index * 2, 2);
  if (source.type == WeightSource::Type::kF16) return from_half(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

size_t value_bytes(WeightFormat format) {
  return format == WeightFormat::kF32 ? 4 : format == WeightFormat::kBf16 ? 2 : 1;
}

}  // namespace

std::string_view weight_format_name(WeightFormat format) {
  return format == WeightFormat::kF32 ? "f32" : format == WeightFormat::kBf16 ? "bf16" : "int8";
}

void read_weights(const WeightSource& source, int64_t begin, int64_t end, float* out) {
  for (int64_t i = begin; i < end; ++i) out[i - begin] = value_at(source, i);
}

Matrix Matrix::in_place(int64_t rows, int64_t cols, const WeightSource& source) {
  FOVEA_CHECK(source.type != WeightSource::Type::kF16);
  Matrix matrix;
  matrix.rows_ = rows;
  matrix.cols_ = cols;
  matrix.format_ =
      source.type == WeightSource::Type::kF32 ? WeightFormat::kF32 : WeightFormat::kBf16;
  matrix.values_ = source.values;
  return matrix;
}

// int8: the values [rows][cols], then one f32 scale for each row.
Matrix::Matrix(int64_t rows, int64_t cols, WeightFormat format)
    : rows_(rows), cols_(cols), format_(format) {
  memory_ = Buffer<std::byte>(bytes());
  values_ = memory_.data();
}

size_t Matrix::bytes() const {
  const auto values = static_cast<size_t>(rows_ * cols_) * value_bytes(format_);
  return format_ == WeightFormat::kInt8 ? (values + 3) / 4 * 4 + static_cast<size_t>(rows_) * 4
                                        : values;
}

void Matrix::pack_rows(const WeightSource& source, int64_t begin, int64_t end) {
  FOVEA_CHECK(!memory_.empty() && begin >= 0 && end <= rows_);
  auto* scales = reinterpret_cast<float*>(memory_.data() + bytes()) - rows_;
  for (int64_t r = begin; r < end; ++r) {
    float most = 0;
    for (int64_t c = 0; c < cols_; ++c)
      most = std::max(most, std::abs(value_at(source, r * cols_ + c)));
    if (format_ == WeightFormat::kInt8) scales[r] = most / 127;
    for (int64_t c = 0; c < cols_; ++c) {
      const float value = value_at(source, r * cols_ + c);
      std::byte* to = memory_.data() + static_cast<size_t>(r * cols_ + c) * value_bytes(format_);
      const uint16_t rounded = round_to_bf16(value);
      if (format_ == WeightFormat::kF32) std::memcpy(to, &value, 4);
      if (format_ == WeightFormat::kBf16) std::memcpy(to, &rounded, 2);
      if (format_ == WeightFormat::kInt8)
        *to = static_cast<std::byte>(most > 0 ? std::lround(value / most * 127) : 0);
    }
  }
}

void Matrix::row(int64_t index, float* out) const {
  if (format_ != WeightFormat::kInt8) {
    const WeightSource source{
        format_ == WeightFormat::kF32 ? WeightSource::Type::kF32 : WeightSource::Type::kBf16,
        values_};
    for (int64_t c = 0; c < cols_; ++c) out[c] = value_at(source, index * cols_ + c);
    return;
  }
  const auto* quantised = static_cast<const int8_t*>(values_);
  const auto* scales =
      reinterpret_cast<const float*>(static_cast<const std::byte*>(values_) + bytes()) - rows_;
  for (int64_t c = 0; c < cols_; ++c)
    out[c] = static_cast<float>(quantised[index * cols_ + c]) * scales[index];
}

}  // namespace fovea
