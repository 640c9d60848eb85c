// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include <cmath>

#include "ops/test_values.h"

namespace fovea {
namespace {

// Values of a norm are about 1 times their weight; sums in f32 lanes are off by some 1e-7 of it.
constexpr float kTolerance = 2e-6f;

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, float tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]))
      ASSERT_TRUE(std::isnan(got[i])) << what << ": wrote between rows, at " << i;
    else
      ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i])))
          << what << ", first bad index " << i;
  }
}

struct Rows {
  int64_t rows;
  int64_t cols;
};
constexpr Rows kRows[] = {{1, 1},   {1, 4},    {3, 5},     {2, 15},   {5, 16},   {4, 33},
                          {7, 127}, {1, 2048}, {37, 1024}, {9, 4097}, {70, 1152}};

TEST(LayerNorm, EqualsTheReferenceOnEveryTarget) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(4);
    for (const auto [rows, cols] : kRows) {
      for (const float offset : {0.0f, 30.0f}) {
        std::vector<float> x = random_values(static_cast<size_t>(rows * cols), random, 3);
        for (float& value : x) value += offset;
        const auto weight = random_values(static_cast<size_t>(cols), random);
        const auto bias = random_values(static_cast<size_t>(cols), random);
        auto expected = poisoned(x.size());
        layer_norm_reference(x.data(), rows, cols, weight.data(), bias.data(), 1e-6f,
                             expected.data());
        const std::string what = target + ", " + std::to_string(rows) + "x" + std::to_string(cols);
        std::vector<float> first;
        for (const int thread_count : {1, 2, 3}) {
          Threads threads(thread_count);
          auto got = poisoned(x.size());
          layer_norm(threads, x.data(), rows, cols, weight.data(), bias.data(), 1e-6f, got.data());
          // The mean is rounded to f32, by up to 1e-6 for an offset of 30, and so are the results.
          // A few values may lie so near each other that this is much of their spread.
          if (cols > 4 || offset == 0)
            expect_near(got, expected, kTolerance + offset * 6e-8f, what);
          if (first.empty()) first = got;
          ASSERT_TRUE(same_bits(got, first)) << what << ", " << thread_count << " threads";
          auto in_place = x;
          layer_norm(threads, in_place.data(), rows, cols, weight.data(), bias.data(), 1e-6f,
                     in_place.data());
          ASSERT_TRUE(same_bits(in_place, first)) << what << " in place";
        }
      }
    }
  });
}

TEST(RmsNorm, EqualsTheReferenceOnEveryTargetWithGroupsAndStrides) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(5);
    for (const auto [rows, cols] : kRows) {
      for (const int64_t groups : {1, 3}) {
        const int64_t width = groups * cols;
        const int64_t x_stride = width + 5;
        const int64_t y_stride = width + 2;
        const auto x = random_values(static_cast<size_t>(rows * x_stride), random, 3);
        const auto weight = random_values(static_cast<size_t>(cols), random);
        auto expected = poisoned(static_cast<size_t>(rows * y_stride));
        rms_norm_reference(x.data(), x_stride, rows, groups, cols, weight.data(), 1e-6f,
                           expected.data(), y_stride);
        const std::string what = target + ", " + std::to_string(rows) + "x" +
                                 std::to_string(groups) + "x" + std::to_string(cols);
        std::vector<float> first;
        for (const int thread_count : {1, 2, 3}) {
          Threads threads(thread_count);
          auto got = poisoned(expected.size());
          rms_norm(threads, x.data(), x_stride, rows, groups, cols, weight.data(), 1e-6f,
                   got.data(), y_stride);
          expect_near(got, expected, kTolerance, what);
          if (first.empty()) first = got;
          ASSERT_TRUE(same_bits(got, first)) << what << ", " << thread_count << " threads";
        }
        Threads threads(2);
        auto in_place = x;
        rms_norm(threads, in_place.data(), x_stride, rows, groups, cols, weight.data(), 1e-6f,
                 in_place.data(), x_stride);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < x_stride; ++c)
            ASSERT_TRUE(same_bits(in_place[static_cast<size_t>(r * x_stride + c)],
                                  c < width ? first[static_cast<size_t>(r * y_stride + c)]
                                            : x[static_cast<size_t>(r * x_stride + c)]))
                << what << " in place, row " << r << ", column " << c;
      }
    }
  });
}

}  // namespace
}  // namespace fovea
