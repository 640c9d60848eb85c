// SPDX-License-Identifier: Apache-2.0
// The weights of a linear layer, in one of the formats that matmul reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/buffer.h"

namespace fovea {

// How matrices are kept in memory; vectors (norms, biases) are f32 always.
enum class WeightFormat { kF32, kBf16, kInt8 };

std::string_view weight_format_name(WeightFormat format);  // "f32", "bf16", "int8"

// Where weights come from: row-major values, aligned to an element and no more.
struct WeightSource {
  enum class Type { kF32, kF16, kBf16 };
  Type type = Type::kF32;
  const void* values = nullptr;  // [rows][cols]
};

// Values [begin, end) of a source as f32, into out[end - begin].
void read_weights(const WeightSource& source, int64_t begin, int64_t end, float* out);

// W[rows][cols]: rows are outputs, cols are inputs, as torch's Linear has them.
class Matrix {
 public:
  // pack_rows() takes rows in groups of this many.
  static constexpr int64_t kRowGroup = 16;
  // int8: so many columns of a row share a scale.
  static constexpr int64_t kBlock = 64;

  Matrix() = default;

  // Reads an f32 or bf16 source where it lies; its memory must outlive the matrix.
  static Matrix in_place(int64_t rows, int64_t cols, const WeightSource& source);

  // Memory of its own in `format`; every row must be packed before the matrix is used.
  Matrix(int64_t rows, int64_t cols, WeightFormat format);

  // Converts rows [begin, end) of the source. `begin` is a multiple of kRowGroup, `end` too or it
  // is rows(). Disjoint ranges may be packed by several threads at once.
  void pack_rows(const WeightSource& source, int64_t begin, int64_t end);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  WeightFormat format() const { return format_; }
  size_t bytes() const;  // of its values and scales, wherever they lie

  // One row as f32: out[cols]. An embedding is a matrix whose rows are read.
  void row(int64_t index, float* out) const;

  const void* values() const { return values_; }

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  WeightFormat format_ = WeightFormat::kF32;
  const void* values_ = nullptr;
  Buffer<std::byte> memory_;  // empty for a matrix in place
};

}  // namespace fovea
