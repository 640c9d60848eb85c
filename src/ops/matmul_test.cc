// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ops/matmul_int8_cpu.h"
#include "ops/test_matmul.h"

namespace fovea {
namespace {

struct Instructions {
  int64_t target = 0;
  bool vnni = false;

  void choose() const {
    hwy::SetSupportedTargetsForTest(target);
    allow_vnni_for_test(vnni || target == 0);
  }
};

// Every set that this CPU has: Highway's targets, with VNNI where there is some.
std::vector<Instructions> all_instructions() {
  std::vector<Instructions> all;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    all.push_back({target, false});
    Instructions{target, true}.choose();
    if (int8_form() != Int8Form::kHighway) all.push_back({target, true});
  }
  Instructions().choose();
  return all;
}

class MatmulOnTarget : public testing::TestWithParam<Instructions> {
 protected:
  void SetUp() override { GetParam().choose(); }
  void TearDown() override { Instructions().choose(); }
};

INSTANTIATE_TEST_SUITE_P(Targets, MatmulOnTarget, testing::ValuesIn(all_instructions()),
                         [](const auto& test) {
                           return std::string(hwy::TargetName(test.param.target)) +
                                  (test.param.vnni ? "WithVnni" : "");
                         });

struct Shape {
  int64_t m, n, k;
};

// Tiny and odd, whole and broken vectors, panels and blocks, both sides of every form's border.
constexpr Shape kShapes[] = {
    {1, 1, 1},    {1, 3, 8},      {2, 3, 7},     {3, 5, 9},     {4, 16, 16},    {5, 17, 64},
    {6, 33, 65},  {7, 3, 129},    {8, 31, 31},   {11, 100, 33}, {1, 151, 300},  {12, 64, 127},
    {13, 1, 257}, {24, 65, 256},  {25, 2, 3},    {31, 40, 1},   {32, 96, 320},  {37, 19, 513},
    {49, 70, 66}, {100, 130, 72}, {131, 48, 40}, {64, 64, 512}, {300, 35, 260}, {1, 32, 2048},
};

TEST_P(MatmulOnTarget, EqualsTheReferenceOnEveryShapeFormatAndThreadCount) {
  std::mt19937 random(11);
  for (const int count : {1, 2, 3}) {
    Threads threads(count);
    for (const WeightFormat format : kFormats) {
      for (const Shape& shape : kShapes) {
        Case test(shape.m, shape.k, random);
        test.add(shape.n, format, {});
        test.expect_right(threads);
      }
    }
  }
}

TEST_P(MatmulOnTarget, BiasAccumulateAndStridesAreHeeded) {
  std::mt19937 random(12);
  Threads threads(2);
  for (const WeightFormat format : kFormats) {
    for (const Shape& shape : {Shape{1, 21, 40}, Shape{5, 64, 100}, Shape{40, 75, 300}}) {
      for (int which = 0; which < 8; ++which) {
        Case test(shape.m, shape.k, random, which & 1 ? shape.k + 5 : 0);
        test.add(shape.n, format,
                 {.bias = (which & 2) != 0, .accumulate = (which & 4) != 0, .gap = which % 3});
        test.expect_right(threads);
      }
    }
  }
}

TEST_P(MatmulOnTarget, SeveralProductsOfMixedFormatsShareAnInput) {
  std::mt19937 random(13);
  Threads threads(2);
  for (const int64_t m : {1, 3, 50}) {
    Case test(m, 210, random);
    test.add(64, WeightFormat::kInt8, {.bias = true});
    test.add(5, WeightFormat::kF32, {.accumulate = true});
    test.add(130, WeightFormat::kBf16, {.gap = 3});
    test.add(1, WeightFormat::kInt8, {});
    test.expect_right(threads);
  }
}

TEST_P(MatmulOnTarget, TheSameBitsForAnyNumberOfThreads) {
  std::mt19937 random(14);
  for (const WeightFormat format : kFormats) {
    for (const int64_t m : {1, 6, 70}) {
      Case test(m, 700, random);
      test.add(333, format, {.bias = true});
      test.add(90, format, {});
      Threads one(1);
      const auto expected = test.run(one);
      for (const int count : {2, 3, 5}) {
        Threads threads(count);
        EXPECT_EQ(test.run(threads), expected) << weight_format_name(format) << " m " << m;
      }
    }
  }
}

TEST_P(MatmulOnTarget, Bf16WeightsGiveTheBitsOfTheSameValuesInF32) {
  std::mt19937 random(15);
  Threads threads(2);
  for (const int64_t m : {1, 7, 60}) {
    const int64_t n = 75;
    const int64_t k = 333;
    const std::vector<float> x = gaussian(m * k, random);
    const Matrix bf16 = packed(n, k, WeightFormat::kBf16, gaussian(n * k, random));
    std::vector<float> widened(static_cast<size_t>(n * k));
    for (int64_t j = 0; j < n; ++j) bf16.row(j, widened.data() + j * k);
    const Matrix f32 = packed(n, k, WeightFormat::kF32, widened);
    std::vector<float> y0(static_cast<size_t>(m * n), 7);
    std::vector<float> y1(static_cast<size_t>(m * n), 9);
    matmul(threads, x.data(), m, {&bf16, nullptr, y0.data()});
    matmul(threads, x.data(), m, {&f32, nullptr, y1.data()});
    EXPECT_EQ(y0, y1) << m;
  }
}

TEST_P(MatmulOnTarget, WeightsAreReadWhereTheyLieFromAnyElement) {
  std::mt19937 random(16);
  Threads threads(2);
  const int64_t n = 37;
  const int64_t k = 150;
  std::vector<uint16_t> file(static_cast<size_t>(n * k) + 1);
  for (uint16_t& value : file) value = bf16_bits(gaussian(1, random)[0]);
  const Matrix matrix = Matrix::in_place(n, k, {WeightSource::Type::kBf16, file.data() + 1});
  for (const int64_t m : {2, 40}) {
    const std::vector<float> x = gaussian(m * k, random);
    std::vector<float> y(static_cast<size_t>(m * n));
    std::vector<float> expected(y.size());
    const Product product{&matrix, nullptr, y.data()};
    const Product reference{&matrix, nullptr, expected.data()};
    matmul(threads, x.data(), m, product);
    matmul_reference(x.data(), 0, m, {&reference, 1});
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4) << i;
  }
}

// What a decode step relies on: a sequence has the same bits alone and in any batch.
TEST_P(MatmulOnTarget, ARowAmongFewHasTheBitsItHasAlone) {
  std::mt19937 random(20);
  Threads one(1);
  Threads several(3);
  for (const WeightFormat format : kFormats) {
    for (const Shape& shape : {Shape{0, 1, 1}, Shape{0, 35, 7}, Shape{0, 70, 333},
                               Shape{0, 129, 64}, Shape{0, 150, 1030}}) {
      const int64_t n = shape.n;
      const int64_t k = shape.k;
      const Matrix matrix = packed(n, k, format, gaussian(n * k, random));
      const std::vector<float> bias = gaussian(n, random);
      const std::vector<float> x = gaussian(kFewRows * k, random);
      const std::vector<float> before = gaussian(kFewRows * n, random);
      const auto rows = [&](Threads& threads, int64_t first, int64_t m) {
        std::vector<float> y(before.begin() + first * n, before.begin() + (first + m) * n);
        matmul(threads, x.data() + first * k, m,
               {&matrix, bias.data(), y.data(), 0, /*accumulate=*/true});
        return y;
      };
      std::vector<float> alone;
      for (int64_t i = 0; i < kFewRows; ++i) {
        const std::vector<float> row = rows(one, i, 1);
        alone.insert(alone.end(), row.begin(), row.end());
      }
      for (int64_t m = 1; m <= kFewRows; ++m) {
        const int64_t first = m * 7 % (kFewRows - m + 1);
        for (Threads* threads : {&one, &several}) {
          const std::vector<float> y = rows(*threads, first, m);
          ASSERT_TRUE(std::equal(y.begin(), y.end(), alone.begin() + first * n))
              << weight_format_name(format) << " " << m << "x" << n << "x" << k << " from row "
              << first << " on " << threads->size() << " threads";
        }
      }
    }
  }
}

// Few rows and many rows are summed in another order; within each a row stands for itself.
TEST_P(MatmulOnTarget, ARowOfTheOutputDoesNotDependOnTheOtherRows) {
  std::mt19937 random(17);
  Threads threads(2);
  const int64_t n = 50;
  const int64_t k = 600;
  for (const WeightFormat format : kFormats) {
    const Matrix matrix = packed(n, k, format, gaussian(n * k, random));
    const std::vector<float> x = gaussian(200 * k, random);
    const auto rows = [&](int64_t first, int64_t m) {
      std::vector<float> y(static_cast<size_t>(m * n), NAN);
      matmul(threads, x.data() + first * k, m, {&matrix, nullptr, y.data()});
      return y;
    };
    for (const auto& [whole, part] : {std::pair{16, 1}, {16, 5}, {200, 70}, {200, 45}}) {
      const std::vector<float> all = rows(0, whole);
      const std::vector<float> some = rows(whole - part, part);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.end() - part * n))
          << weight_format_name(format) << " " << whole << " " << part;
    }
  }
}

TEST(Matmul, Int8IsCloseToTheExactProductOfGaussians) {
  std::mt19937 random(18);
  Threads threads(2);
  for (const auto& [m, k] : {std::pair{3, 2048}, {33, 2048}, {2, 6144}, {40, 1000}}) {
    const int64_t n = 96;
    const std::vector<float> x = gaussian(m * k, random);
    const std::vector<float> weights = gaussian(n * k, random);
    const Matrix int8 = packed(n, k, WeightFormat::kInt8, weights);
    const Matrix f32 = packed(n, k, WeightFormat::kF32, weights);
    std::vector<float> y(static_cast<size_t>(m * n), NAN);
    std::vector<float> expected(y.size(), NAN);
    const Product exact{&f32, nullptr, expected.data()};
    matmul(threads, x.data(), m, {&int8, nullptr, y.data()});
    matmul_reference(x.data(), 0, m, {&exact, 1});
    EXPECT_GE(cosine(y, expected), 0.9999) << m << " x " << k;
  }
}

// Integers are exact, and the blocks are added in the same order with the same roundings.
TEST(Matmul, Int8GivesTheSameBitsWithAndWithoutVnni) {
  std::mt19937 random(19);
  Threads threads(2);
  for (const int64_t m : {1, 4, 30}) {
    Case test(m, 450, random);
    test.add(70, WeightFormat::kInt8, {.bias = true});
    allow_vnni_for_test(true);
    const std::vector<float> with = test.run(threads);
    allow_vnni_for_test(false);
    const std::vector<float> without = test.run(threads);
    allow_vnni_for_test(true);
    EXPECT_EQ(with, without) << m;
  }
}

TEST(Matmul, NoRowsAndNoProductsAreNoWork) {
  Threads threads(2);
  const Matrix matrix = packed(2, 2, WeightFormat::kF32, {1, 2, 3, 4});
  const std::vector<float> x = {1, 2};
  float y = 5;
  matmul(threads, x.data(), 0, {&matrix, nullptr, &y});
  matmul(threads, x.data(), 0, 1, {});
  EXPECT_EQ(y, 5);
}

}  // namespace
}  // namespace fovea
