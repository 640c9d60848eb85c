// SPDX-License-Identifier: Apache-2.0
#include "memory/forget/row_distance.h"

#include "ops/test_values.h"

namespace fovea {
namespace {

// Sums of squares, all positive: their relative error is some roundings of f32.
TEST(RowDistance, EqualsTheReferenceOnEveryTarget) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(6);
    for (const int64_t count : {4, 8, 12, 20, 32, 36, 60, 256, 1028}) {
      const auto a = random_values(static_cast<size_t>(count), random, 2);
      const auto b = random_values(static_cast<size_t>(count), random, 3);
      for (const auto& [part_a, part_b] :
           {std::pair<float, float>{1, 1}, {0.25f, 1 / 3.0f}, {1, 0}}) {
        const float expected = squares_apart_reference(a.data(), part_a, b.data(), part_b, count);
        EXPECT_NEAR(squares_apart(a.data(), part_a, b.data(), part_b, count), expected,
                    2e-6f * expected)
            << target << ", " << count << " values";
      }
    }
  });
}

}  // namespace
}  // namespace fovea
