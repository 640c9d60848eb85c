// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/random_features.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/test_plain_keys.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

struct Shape {
  const char* name;
  int64_t rows = 1;
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 8;
  int page_tokens = 0;
  bool bias = false;
  float spread = 1;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kAll = {
      {"one row", 1},
      {"less than a chunk", 5, 2, 1, 12, 16},
      {"odd", 61, 3, 3, 20, 16, true},
      {"two heads a key", 70, 4, 2, 64, 64},
      {"long rows, whose features differ by many powers", 40, 2, 2, 64, 0, false, 4},
      {"a wide head", 33, 1, 1, 72, 0, true},
  };
  return kAll;
}

struct Case {
  PlainKeys kv;
  PagedKeys view;
  std::vector<float> q;
  std::vector<float> bias;
  AttentionParams params;
  int64_t width = 0;

  Case(const Shape& shape, std::mt19937& random)
      : kv(shape.kv_heads, shape.head_dim, shape.page_tokens) {
    width = int64_t{shape.heads} * shape.head_dim;
    const int64_t kv_width = int64_t{shape.kv_heads} * shape.head_dim;
    q = random_values(static_cast<size_t>(shape.rows * q_stride()), random, shape.spread);
    const auto k = random_values(static_cast<size_t>(shape.rows * kv_width), random, shape.spread);
    const auto v = random_values(static_cast<size_t>(shape.rows * kv_width), random);
    kv.append(k.data(), kv_width, v.data(), kv_width, shape.rows);
    view = kv.view();
    if (shape.bias) bias = random_values(static_cast<size_t>(shape.rows), random);
    params = {.heads = shape.heads,
              .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
              .key_bias = shape.bias ? bias.data() : nullptr};
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  int64_t q_stride() const { return width + 3; }
  SparseAttention given() const { return {q.data(), q_stride(), &view, &params, nullptr, nullptr}; }
};

TEST(RandomFeatures, EqualTheirReferenceOnEveryTargetAndNumberOfThreads) {
  std::mt19937 random(3);
  for (const Shape& shape : shapes()) {
    const Case made(shape, random);
    const int64_t stride = made.width + 2;
    const auto values = static_cast<size_t>(shape.rows * stride);
    for (const int features : {64, 192}) {
      auto expected = poisoned(values);
      attend_by_features_reference(made.given(), features, {0, shape.rows}, expected.data(),
                                   stride);
      on_every_target([&](const std::string& target) {
        std::vector<float> first;
        for (const int count : {1, 2, 3}) {
          Threads threads(count);
          auto got = poisoned(values);
          attend_by_features(threads, made.given(), features, got.data(), stride);
          for (size_t i = 0; i < values; ++i) {
            if (static_cast<int64_t>(i) % stride >= made.width)
              ASSERT_TRUE(std::isnan(got[i])) << "wrote between rows: " << shape.name;
            else  // exponents to about 100, of f32: 1e-5 of a weight, and values to about 5
              ASSERT_NEAR(got[i], expected[i], 1e-4) << shape.name << ", " << target << ", " << i;
          }
          if (first.empty()) first = got;
          ASSERT_TRUE(same_bits(got, first)) << shape.name << ", " << target;
        }
      });
    }
  }
}

// The more features the nearer, by the root of their number.
TEST(RandomFeatures, ComeToDenseAttentionAsTheyGrow) {
  std::mt19937 random(4);
  // A weight is off by the root of (e^|q + k|^2 - 1) / features of itself, q and k as scaled: here
  // about 1.3 over the root of them. Long rows need far more features than this.
  const Case made({"short rows", 128, 4, 4, 32, 0, true, 0.3f}, random);
  const auto values = static_cast<size_t>(128 * made.width);
  std::vector<float> dense(values);
  attention_reference(made.q.data(), made.q_stride(), 128, made.view, made.params, dense.data(),
                      made.width);
  Threads threads(2);
  double before = 1;
  for (const int features : {64, 512, 4096}) {
    std::vector<float> got(values);
    attend_by_features(threads, made.given(), features, got.data(), made.width);
    double error = 0;
    double all = 0;
    for (size_t i = 0; i < values; ++i) {
      error += std::pow(got[i] - dense[i], 2);
      all += std::pow(dense[i], 2);
    }
    const double relative = std::sqrt(error / all);
    EXPECT_LT(relative, before / 1.8) << features << " features";  // the root of 8 is 2.8
    before = relative;
  }
  EXPECT_LT(before, 0.03);
}

TEST(RandomFeatures, DirectionsOfAGroupAreAtRightAnglesAndOfTheLengthOfNormalOnes) {
  constexpr int kDim = 16;
  constexpr int kFeatures = 512;
  const std::vector<float> directions = random_directions(kFeatures, kDim);
  EXPECT_EQ(directions, random_directions(kFeatures, kDim)) << "the same for all calls";
  const auto dot = [&](int a, int b) {
    double sum = 0;
    for (int d = 0; d < kDim; ++d)
      sum += double{directions[static_cast<size_t>(a * kDim + d)]} *
             directions[static_cast<size_t>(b * kDim + d)];
    return sum;
  };
  double squares = 0;
  for (int a = 0; a < kFeatures; ++a) {
    squares += dot(a, a);
    for (int b = a / kDim * kDim; b < a; ++b) EXPECT_NEAR(dot(a, b), 0, 1e-5);
  }
  EXPECT_NEAR(squares / kFeatures, kDim, 1) << "their mean square is the dimension";
}

}  // namespace
}  // namespace fovea
