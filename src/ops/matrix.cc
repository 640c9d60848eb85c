// SPDX-License-Identifier: Apache-2.0
#include "ops/matrix.h"

#include <cstring>

#include "base/check.h"
#include "ops/int8_layout.h"
#include "ops/matrix_cpu.h"

namespace fovea {

std::string_view weight_format_name(WeightFormat format) {
  return format == WeightFormat::kF32 ? "f32" : format == WeightFormat::kBf16 ? "bf16" : "int8";
}

void read_weights(const WeightSource& source, int64_t begin, int64_t end, float* out) {
  convert_to_f32(source, begin, end - begin, out);
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

Matrix::Matrix(int64_t rows, int64_t cols, WeightFormat format)
    : rows_(rows), cols_(cols), format_(format) {
  memory_ = Buffer<std::byte>(bytes());
  values_ = memory_.data();
}

size_t Matrix::bytes() const {
  if (format_ == WeightFormat::kInt8) return Int8Layout(rows_, cols_).bytes();
  return static_cast<size_t>(rows_ * cols_) * (format_ == WeightFormat::kF32 ? 4 : 2);
}

void Matrix::pack_rows(const WeightSource& source, int64_t begin, int64_t end) {
  FOVEA_CHECK(!memory_.empty() && begin >= 0 && begin % kRowGroup == 0 && end <= rows_ &&
              (end % kRowGroup == 0 || end == rows_));
  const int64_t first = begin * cols_;
  const int64_t count = (end - begin) * cols_;
  const bool same = (format_ == WeightFormat::kF32 && source.type == WeightSource::Type::kF32) ||
                    (format_ == WeightFormat::kBf16 && source.type == WeightSource::Type::kBf16);
  const size_t value_bytes = format_ == WeightFormat::kF32 ? 4 : 2;
  if (same) {
    const size_t offset = static_cast<size_t>(first) * value_bytes;
    std::memcpy(memory_.data() + offset, static_cast<const std::byte*>(source.values) + offset,
                static_cast<size_t>(count) * value_bytes);
  } else if (format_ == WeightFormat::kF32) {
    convert_to_f32(source, first, count, reinterpret_cast<float*>(memory_.data()) + first);
  } else if (format_ == WeightFormat::kBf16) {
    convert_to_bf16(source, first, count, reinterpret_cast<uint16_t*>(memory_.data()) + first);
  } else {
    const Int8Layout layout(rows_, cols_);
    auto* panels = reinterpret_cast<uint8_t*>(memory_.data());
    for (int64_t row = begin; row < end; row += kRowGroup)
      quantise_panel(source, row, rows_, cols_, panels + row / kRowGroup * layout.panel_bytes);
  }
}

void Matrix::row(int64_t index, float* out) const {
  if (format_ != WeightFormat::kInt8) {
    const auto type =
        format_ == WeightFormat::kF32 ? WeightSource::Type::kF32 : WeightSource::Type::kBf16;
    return convert_to_f32({type, values_}, index * cols_, cols_, out);
  }
  const Int8Layout layout(rows_, cols_);
  const auto* panel = static_cast<const uint8_t*>(values_) + index / kRowGroup * layout.panel_bytes;
  const auto* scales = reinterpret_cast<const uint16_t*>(panel);
  const uint8_t* values = panel + layout.values_offset;
  const int64_t r = index % kRowGroup;
  for (int64_t c = 0; c < cols_; ++c)
    out[c] = widen_bf16(scales[c / kBlock * kRowGroup + r]) *
             static_cast<float>(values[Int8Layout::value_offset(r, c)] - Int8Layout::kZero);
}

}  // namespace fovea
