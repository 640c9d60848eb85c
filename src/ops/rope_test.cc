// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include <cmath>

#include "ops/test_values.h"

namespace fovea {
namespace {

struct Shape {
  int64_t rows;
  int heads;
  int head_dim;
  int64_t gap;  // between rows
};
constexpr Shape kShapes[] = {{1, 1, 2, 0},   {1, 16, 128, 0}, {3, 2, 8, 5},    {5, 3, 20, 1},
                             {7, 16, 64, 0}, {4, 1, 72, 8},   {130, 4, 80, 0}, {61, 8, 128, 2048}};

TEST(Rotate, EqualsTheReferenceToTheBitOnEveryTarget) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(6);
    for (const Shape& shape : kShapes) {
      const int64_t stride = int64_t{shape.heads} * shape.head_dim + shape.gap;
      const auto x = random_values(static_cast<size_t>(shape.rows * stride), random);
      const auto angles =
          random_values(static_cast<size_t>(shape.rows * shape.head_dim / 2), random, 9);
      std::vector<float> cos;
      std::vector<float> sin;
      for (const float angle : angles) {
        cos.push_back(std::cos(angle));
        sin.push_back(std::sin(angle));
      }
      auto expected = x;
      rotate_reference(expected.data(), stride, shape.rows, shape.heads, shape.head_dim, cos.data(),
                       sin.data());
      for (const int thread_count : {1, 2, 3}) {
        Threads threads(thread_count);
        auto got = x;
        rotate(threads, got.data(), stride, shape.rows, shape.heads, shape.head_dim, cos.data(),
               sin.data());
        ASSERT_TRUE(same_bits(got, expected))
            << target << ", " << shape.rows << "x" << shape.heads << "x" << shape.head_dim << ", "
            << thread_count << " threads";
      }
    }
  });
}

TEST(Rotate, KeepsLengthsAndRotatesBack) {
  std::mt19937 random(7);
  constexpr int kDim = 72;
  const auto x = random_values(kDim, random);
  const auto angles = random_values(kDim / 2, random, 3);
  std::vector<float> cos;
  std::vector<float> sin;
  std::vector<float> back;
  for (const float angle : angles) {
    cos.push_back(std::cos(angle));
    sin.push_back(std::sin(angle));
    back.push_back(-sin.back());
  }
  Threads threads(1);
  auto rotated = x;
  rotate(threads, rotated.data(), kDim, 1, 1, kDim, cos.data(), sin.data());
  for (size_t i = 0; i < kDim / 2; ++i)
    EXPECT_NEAR(std::hypot(rotated[i], rotated[i + kDim / 2]), std::hypot(x[i], x[i + kDim / 2]),
                1e-6f * (1 + std::hypot(x[i], x[i + kDim / 2])));
  rotate(threads, rotated.data(), kDim, 1, 1, kDim, cos.data(), back.data());
  for (size_t i = 0; i < kDim; ++i) EXPECT_NEAR(rotated[i], x[i], 2e-6f * (1 + std::abs(x[i])));
}

}  // namespace
}  // namespace fovea
