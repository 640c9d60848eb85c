// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/eight/attention_eight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ops/attention/eight/eight_bits.h"
#include "ops/test_plain_keys.h"

namespace fovea {
namespace {

TEST(EightBits, KeepWhatTheyHold) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto eight = static_cast<uint8_t>(bits);
    const float value = of_eight(eight);
    if (bits % 128 == 127) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(to_eight(value) & 0x7F, 0x7F);
    } else {
      EXPECT_EQ(to_eight(value), eight) << value;
    }
  }
}

// Between two that follow each other, the nearer one; in the middle, the even one.
TEST(EightBits, RoundToTheNearest) {
  for (int bits = 0; bits < 126; ++bits) {
    const float low = of_eight(static_cast<uint8_t>(bits));
    const float high = of_eight(static_cast<uint8_t>(bits + 1));
    ASSERT_LT(low, high);
    EXPECT_EQ(to_eight(low + 0.49f * (high - low)), bits);
    EXPECT_EQ(to_eight(low + 0.51f * (high - low)), bits + 1);
    EXPECT_EQ(to_eight((low + high) / 2), bits + bits % 2);
    EXPECT_EQ(to_eight(-high), bits + 1 + 128);
  }
  EXPECT_EQ(of_eight(to_eight(1e9f)), 448);
  EXPECT_EQ(of_eight(to_eight(-INFINITY)), -448);
  EXPECT_EQ(to_eight(1e-9f), 0);
}

struct Shape {
  int heads;
  int kv_heads;
  int head_dim;
  int queries;
  int keys;
  bool causal = false;
};

// N(0, 1), and one of a thousand values N(0, 100) on top.
std::vector<float> outlying(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values)
    value = normal(random) + (random() % 1000 == 0 ? 10 * normal(random) : 0);
  return values;
}

class AttentionEight : public testing::Test {
 protected:
  void make(const Shape& shape) {
    shape_ = shape;
    width_ = int64_t{shape.heads} * shape.head_dim;
    const int64_t kv_width = int64_t{shape.kv_heads} * shape.head_dim;
    q_ = outlying(static_cast<size_t>(shape.queries * width_), random_);
    const auto keys = outlying(static_cast<size_t>(shape.keys * kv_width), random_);
    const auto values = outlying(static_cast<size_t>(shape.keys * kv_width), random_);
    kv_ = PlainKeys(shape.kv_heads, shape.head_dim);
    kv_.append(keys.data(), kv_width, values.data(), kv_width, shape.keys);
    params_ = {.heads = shape.heads,
               .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
               .causal = shape.causal,
               .first_query = std::max(0, shape.keys - shape.queries)};
  }
  std::vector<float> eight(const EightOptions& options) {
    std::vector<float> out(q_.size(), std::nanf(""));
    attention_eight(threads_, q_.data(), width_, shape_.queries, kv_.view(), params_, options,
                    out.data(), width_);
    return out;
  }
  std::vector<float> reference(const EightOptions& options) {
    std::vector<float> out(q_.size(), std::nanf(""));
    attention_eight_reference(q_.data(), width_, shape_.queries, kv_.view(), params_, options,
                              out.data(), width_);
    return out;
  }
  std::vector<float> exact() {
    std::vector<float> out(q_.size(), std::nanf(""));
    attention_reference(q_.data(), width_, shape_.queries, kv_.view(), params_, out.data(), width_);
    return out;
  }
  static double rmse(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
    return std::sqrt(sum / static_cast<double>(a.size()));
  }

  Threads threads_{2};
  std::mt19937 random_{23};
  Shape shape_{};
  int64_t width_ = 0;
  std::vector<float> q_;
  PlainKeys kv_{1, 4};
  AttentionParams params_;
};

TEST_F(AttentionEight, EqualsTheReference) {
  for (const Shape& shape : std::vector<Shape>{{1, 1, 4, 1, 1},
                                               {2, 1, 16, 5, 9, true},
                                               {6, 2, 64, 17, 40},
                                               {4, 2, 128, 33, 70, true},
                                               {2, 2, 128, 3, 150}})
    for (const bool spread : {false, true})
      for (const bool per_head : {false, true}) {
        make(shape);
        const EightOptions options{.spread = spread, .per_head = per_head};
        const auto got = eight(options);
        const auto wanted = reference(options);
        // A value between two of eight bits may round to either, f32 or f64: a step is 1/8 of it,
        // among hundreds of values.
        EXPECT_LE(rmse(got, wanted), 2e-3)
            << shape.heads << "/" << shape.kv_heads << " heads of " << shape.head_dim << ", "
            << shape.queries << " x " << shape.keys << (spread ? ", spread" : "");
      }
}

TEST_F(AttentionEight, SpreadingTwiceGivesTheSame) {
  for (const int dim : {1, 2, 8, 128}) {
    auto x = outlying(static_cast<size_t>(dim), random_);
    const auto before = x;
    spread_head(x.data(), dim);
    spread_head(x.data(), dim);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], before[i], 1e-5f);
  }
}

TEST_F(AttentionEight, SpreadingLessensTheErrorOfOutliers) {
  make({4, 2, 128, 96, 384});
  const auto wanted = exact();
  const double plain = rmse(eight({.spread = false, .per_head = true}), wanted);
  const double spread = rmse(eight({.spread = true, .per_head = true}), wanted);
  EXPECT_LT(spread, 0.8 * plain) << plain << " became " << spread;
  RecordProperty("plain", std::to_string(plain));
  RecordProperty("spread", std::to_string(spread));
}

}  // namespace
}  // namespace fovea
