// SPDX-License-Identifier: Apache-2.0
// The forms of matmul on a CPU, and what they share. matmul.cc chooses between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/per_thread.h"
#include "ops/matmul.h"
#include "ops/unroll.h"

namespace fovea {

// The input of a matmul: [m][k], rows `stride` values apart.
struct Input {
  const float* values = nullptr;
  int64_t stride = 0;
  int64_t m = 0;
  int64_t k = 0;
};

inline int64_t output_stride(const Product& product) {
  return product.y_stride > 0 ? product.y_stride : product.weights->rows();
}

// Some consecutive outputs of one of several products.
struct Piece {
  const Product* product = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
};

inline int64_t piece_count(std::span<const Product> products, int64_t piece_rows) {
  int64_t count = 0;
  for (const Product& product : products)
    count += (product.weights->rows() + piece_rows - 1) / piece_rows;
  return count;
}

inline Piece piece_at(std::span<const Product> products, int64_t piece_rows, int64_t index) {
  for (const Product& product : products) {
    const int64_t rows = product.weights->rows();
    const int64_t count = (rows + piece_rows - 1) / piece_rows;
    if (index < count)
      return {&product, index * piece_rows, std::min((index + 1) * piece_rows, rows)};
    index -= count;
  }
  return {};
}

// Calls body(Piece) for all of them on the threads. Borders depend on shapes alone.
template <class Body>
void for_each_piece(Threads& threads, std::span<const Product> products, int64_t piece_rows,
                    const Body& body) {
  // One reference, so that std::function holds it without allocating.
  const struct {
    std::span<const Product> products;
    int64_t piece_rows;
    const Body& body;
  } loop{products, piece_rows, body};
  threads.for_each(piece_count(products, piece_rows), 1, [&loop](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) loop.body(piece_at(loop.products, loop.piece_rows, i));
  });
}

// Memory that a thread keeps between calls, since a call may take only microseconds. A thread's
// calls never nest, so one buffer of each kind is enough.
template <class T>
T* scratch(PerThread<Buffer<T>>& memory, size_t count) {
  Buffer<T>& buffer = memory.here();
  if (buffer.size() < count) buffer = Buffer<T>(count);
  return buffer.data();
}

// Rows [0, m) split as evenly as can be into panels of at most `most` rows.
struct Panels {
  Panels(int64_t rows, int64_t most)
      : count((rows + most - 1) / most), few(rows / count), more(rows % count) {}
  int64_t begin(int64_t panel) const { return panel * few + std::min(panel, more); }
  int64_t rows(int64_t panel) const { return few + (panel < more ? 1 : 0); }

  int64_t count;
  int64_t few;   // rows of the last panels
  int64_t more;  // this many panels, the first, have one row more
};

// f32 and bf16, few rows: dot products on the weights where they lie.
void matmul_dot(Threads& threads, const Input& x, std::span<const Product> products);
// f32 and bf16, many rows: panels of weights are transposed into the cache.
void matmul_gemm(Threads& threads, const Input& x, std::span<const Product> products);
// int8, any number of rows.
void matmul_int8(Threads& threads, const Input& x, std::span<const Product> products);

}  // namespace fovea
