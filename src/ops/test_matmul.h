// SPDX-License-Identifier: Apache-2.0
// What the tests and benches of matmul and Matrix share.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <deque>
#include <random>
#include <vector>

#include "ops/matmul.h"

namespace fovea {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kInt8};

inline std::vector<float> gaussian(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

inline uint16_t bf16_bits(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

inline Matrix packed(int64_t rows, int64_t cols, WeightFormat format,
                     const std::vector<float>& values) {
  Matrix matrix(rows, cols, format);
  matrix.pack_rows({WeightSource::Type::kF32, values.data()}, 0, rows);
  return matrix;
}

inline double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// A random input with the products that are to be taken of it.
class Case {
 public:
  struct Options {
    bool bias = false;
    bool accumulate = false;
    int64_t gap = 0;  // values between the rows of y, which must stay as they are
  };

  Case(int64_t m, int64_t k, std::mt19937& random, int64_t x_stride = 0)
      : m_(m), k_(k), stride_(x_stride), random_(random) {
    // Rows of very different size, so that one does not hide in the tolerance of another.
    x_ = gaussian(m * step(), random);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t c = 0; c < step(); ++c) x_[at(i * step() + c)] *= i % 3 == 0 ? 1.0F : 0.01F;
  }

  void add(int64_t n, WeightFormat format, const Options& options) {
    matrices_.push_back(packed(n, k_, format, gaussian(n * k_, random_)));
    biases_.push_back(options.bias ? gaussian(n, random_) : std::vector<float>());
    first_.push_back(gaussian(m_ * (n + options.gap), random_));  // poison, or what y is added to
    options_.push_back(options);
  }

  // Every y, gaps included, one after the other.
  std::vector<float> run(Threads& threads) const {
    return outputs([&](std::span<const Product> products) {
      matmul(threads, x_.data(), stride_, m_, products);
    });
  }

  void expect_right(Threads& threads) const {
    const std::vector<float> actual = run(threads);
    const std::vector<float> expected = outputs([&](std::span<const Product> products) {
      matmul_reference(x_.data(), stride_, m_, products);
    });
    size_t index = 0;
    for (size_t p = 0; p < matrices_.size(); ++p) {
      const int64_t width = matrices_[p].rows() + options_[p].gap;
      for (int64_t i = 0; i < m_; ++i) {
        for (int64_t j = 0; j < width; ++j, ++index) {
          const double allowed = j < matrices_[p].rows() ? tolerance(p, i, j) : 0;
          ASSERT_NEAR(actual[index], expected[index], allowed)
              << weight_format_name(matrices_[p].format()) << " product " << p << " of m " << m_
              << " n " << matrices_[p].rows() << " k " << k_ << " at [" << i << "][" << j
              << "], threads " << threads.size();
        }
      }
    }
  }

 private:
  static size_t at(int64_t index) { return static_cast<size_t>(index); }
  int64_t step() const { return stride_ > 0 ? stride_ : k_; }

  template <class Run>
  std::vector<float> outputs(const Run& run_products) const {
    std::deque<std::vector<float>> y(first_.begin(), first_.end());
    std::vector<Product> products;
    for (size_t p = 0; p < matrices_.size(); ++p) {
      const int64_t width = matrices_[p].rows() + options_[p].gap;
      products.push_back({&matrices_[p], options_[p].bias ? biases_[p].data() : nullptr,
                          y[p].data(), options_[p].gap > 0 ? width : 0, options_[p].accumulate});
    }
    run_products(products);
    std::vector<float> all;
    for (const auto& values : y) all.insert(all.end(), values.begin(), values.end());
    return all;
  }

  // A sum of k products, a bias and what was there, in f32 in any order, is off by at most
  // (k + 2) / 2^24 of the sum of their sizes. Int8 also rounds x to 1/127 of the largest value of
  // its block, so it is off by up to half such a step at every weight; with what that adds to the
  // sizes, and three more roundings of each block's scales.
  double tolerance(size_t p, int64_t i, int64_t j) const {
    const Matrix& matrix = matrices_[p];
    std::vector<float> row(at(k_));
    matrix.row(j, row.data());
    const auto largest = [&](int64_t c) {
      float most = 0;
      for (int64_t b = c; b < std::min(c + Matrix::kBlock, k_); ++b)
        most = std::max(most, std::abs(x_[at(i * step() + b)]));
      return most;
    };
    double size = options_[p].bias ? std::abs(biases_[p][at(j)]) : 0;
    if (options_[p].accumulate)
      size += std::abs(first_[p][at(i * (matrix.rows() + options_[p].gap) + j)]);
    double rounded = 0;
    double half_step = 0;
    for (int64_t c = 0; c < k_; ++c) {
      if (c % Matrix::kBlock == 0) half_step = largest(c) / 254.0 * 1.0001;
      size += std::abs(static_cast<double>(x_[at(i * step() + c)]) * row[at(c)]);
      if (matrix.format() == WeightFormat::kInt8) rounded += half_step * std::abs(row[at(c)]);
    }
    return rounded + (size + rounded) * static_cast<double>(k_ + 6) * 0x1p-24;
  }

  int64_t m_;
  int64_t k_;
  int64_t stride_;
  std::mt19937& random_;
  std::vector<float> x_;
  std::deque<Matrix> matrices_;
  std::deque<std::vector<float>> biases_;
  std::deque<std::vector<float>> first_;
  std::vector<Options> options_;
};

}  // namespace fovea
