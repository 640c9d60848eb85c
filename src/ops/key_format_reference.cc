// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/int8_layout.h"
#include "ops/key_format.h"

namespace fovea {
namespace {

constexpr float kLeastRow = 1e-30f;
constexpr int kFp8Bias = 7;      // of the exponent
constexpr int kFp8Mantissa = 3;  // bits
constexpr int kFp8NotANumber = 0x7F;

uint16_t nearest_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// The least bf16 that is no less; of a number that is not negative.
uint16_t bf16_above(float value) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + 0xFFFF) >> 16);
}

float from_fp8(int bits) {
  const int exponent = bits >> kFp8Mantissa & 15;
  const int mantissa = bits & 7;
  const float size =
      exponent == 0
          ? std::ldexp(static_cast<float>(mantissa), 1 - kFp8Bias - kFp8Mantissa)
          : std::ldexp(static_cast<float>(8 + mantissa), exponent - kFp8Bias - kFp8Mantissa);
  return (bits & 0x80) != 0 ? -size : size;
}

// The nearest of all; of two the one whose last bit is 0.
int to_fp8(float value) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  const double size = std::abs(static_cast<double>(value));
  for (int bits = 0; bits < kFp8NotANumber; ++bits) {
    const double apart = std::abs(from_fp8(bits) - size);
    if (apart < least || (apart == least && bits % 2 == 0)) {
      best = bits;
      least = apart;
    }
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

// The scale of a row; not a number where a value is not finite.
uint16_t scale_of(const float* row, int head_dim, float largest) {
  float most = 0;
  for (int d = 0; d < head_dim; ++d) {
    if (!std::isfinite(row[d])) return nearest_bf16(std::numeric_limits<float>::quiet_NaN());
    most = std::max(most, std::abs(row[d]));
  }
  return most < kLeastRow ? uint16_t{0} : bf16_above(most / largest);
}

}  // namespace

void narrow_rows_reference(KeyFormat format, const float* rows, int64_t stride, int64_t count,
                           int head_dim, std::byte* values, uint16_t* scales) {
  const int64_t width = int64_t{value_bytes(format)} * head_dim;
  for (int64_t i = 0; i < count; ++i, rows += stride, values += width) {
    if (format == KeyFormat::kF32) {
      std::memcpy(values, rows, static_cast<size_t>(width));
      continue;
    }
    if (format == KeyFormat::kBf16) {
      for (int d = 0; d < head_dim; ++d) {
        const uint16_t bits = nearest_bf16(rows[d]);
        std::memcpy(values + 2 * d, &bits, sizeof bits);
      }
      continue;
    }
    const float largest = row_of(format).largest;
    scales[i] = scale_of(rows, head_dim, largest);
    const float scale = widen_bf16(scales[i]);
    const float inverse = scale > 0 ? 1 / scale : 0;  // also where it is not a number
    for (int d = 0; d < head_dim; ++d) {
      const float scaled = inverse == 0 ? 0 : std::clamp(rows[d] * inverse, -largest, largest);
      values[d] = format == KeyFormat::kInt8
                      ? static_cast<std::byte>(static_cast<int8_t>(std::nearbyint(scaled)))
                      : static_cast<std::byte>(to_fp8(scaled));
    }
  }
}

void widen_rows_reference(KeyFormat format, const StoredRows& rows, int64_t count, int head_dim,
                          float* out) {
  const std::byte* values = rows.values;
  for (int64_t i = 0; i < count; ++i) {
    for (int d = 0; d < head_dim; ++d, values += value_bytes(format), ++out) {
      if (format == KeyFormat::kF32) {
        std::memcpy(out, values, sizeof(float));
      } else if (format == KeyFormat::kBf16) {
        uint16_t bits = 0;
        std::memcpy(&bits, values, sizeof bits);
        *out = widen_bf16(bits);
      } else {
        const auto code = std::to_integer<uint8_t>(*values);
        const float number = format == KeyFormat::kInt8
                                 ? static_cast<float>(static_cast<int8_t>(code))
                                 : from_fp8(code);
        *out = number * widen_bf16(rows.scales[i]);
      }
    }
  }
}

}  // namespace fovea
