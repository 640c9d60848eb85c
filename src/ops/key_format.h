// SPDX-License-Identifier: Apache-2.0
// In which number format the rows of a memory are stored, keys and values alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"

namespace fovea {

// int8 and fp8 (e4m3: 4 bits of exponent, 3 of mantissa, no infinity) have a scale for each row,
// the part of a token that one head has: its largest size over the largest number of the format,
// rounded up to bf16, so that no value passes that number.
enum class KeyFormat : uint8_t { kF32, kBf16, kInt8, kFp8 };

struct KeyFormatRow {
  const char* name;
  const char* words;  // for help and docs
  KeyFormat format;
  int value_bytes;
  int scale_bytes;  // of a row
  float largest;    // number that a scaled value may be; 0: not scaled
};

// All of them, and a format's own row.
std::span<const KeyFormatRow> key_formats();
const KeyFormatRow& row_of(KeyFormat format);

constexpr int value_bytes(KeyFormat format) {
  return format == KeyFormat::kF32 ? 4 : format == KeyFormat::kBf16 ? 2 : 1;
}
constexpr int scale_bytes(KeyFormat format) {
  return format == KeyFormat::kInt8 || format == KeyFormat::kFp8 ? 2 : 0;
}
constexpr int64_t row_bytes(KeyFormat format, int head_dim) {
  return int64_t{value_bytes(format)} * head_dim + scale_bytes(format);
}

// Rows as they are stored: values row by row, and apart from them their scales, bf16, where the
// format has some.
struct StoredRows {
  const std::byte* values = nullptr;
  const uint16_t* scales = nullptr;
};

// Stores `count` rows of head_dim values, `stride` apart. What is not finite makes its whole row
// so, where there is a scale; rows below 1e-30 become zeros there.
void narrow_rows(KeyFormat format, const float* rows, int64_t stride, int64_t count, int head_dim,
                 std::byte* values, uint16_t* scales);
// The same rows as floats: [count][head_dim].
void widen_rows(KeyFormat format, const StoredRows& rows, int64_t count, int head_dim, float* out);

// The specifications.
void narrow_rows_reference(KeyFormat format, const float* rows, int64_t stride, int64_t count,
                           int head_dim, std::byte* values, uint16_t* scales);
void widen_rows_reference(KeyFormat format, const StoredRows& rows, int64_t count, int head_dim,
                          float* out);

// One format for all layers, or several, each for an equal part of them, the first ones first.
class KeyFormats {
 public:
  KeyFormats() = default;                                                 // f32
  KeyFormats(KeyFormat all) : KeyFormats(std::vector<KeyFormat>{all}) {}  // NOLINT: implicit
  explicit KeyFormats(std::vector<KeyFormat> parts);

  bool is_f32() const { return parts_.empty(); }
  KeyFormat of(int layer, int layers) const;
  // As parse_key_formats() reads it; empty: f32. Two that store the same have the same text.
  std::string text() const;

  bool operator==(const KeyFormats&) const = default;

 private:
  std::vector<KeyFormat> parts_;  // empty where all are f32
};

// Reads "int8", "f32,int8" and the like; empty: f32. An error names what is wrong, and what there
// is.
Result<KeyFormats> parse_key_formats(std::string_view text, int layers);

}  // namespace fovea
