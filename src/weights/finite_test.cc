// SPDX-License-Identifier: Apache-2.0
#include "weights/finite.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <random>

namespace fovea {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBf16};

// Every finite pattern of the type's exponent can be there, denormals and the largest included.
std::vector<uint32_t> finite_patterns(DType dtype, size_t count, std::mt19937& random) {
  const uint32_t exponent = dtype == DType::kF32   ? 0x7F800000
                            : dtype == DType::kF16 ? 0x7C00
                                                   : 0x7F80;
  const uint32_t all = dtype == DType::kF32 ? 0xFFFFFFFF : 0xFFFF;
  std::vector<uint32_t> patterns(count);
  for (uint32_t& pattern : patterns) do
      pattern = random() & all;
    while ((pattern & exponent) == exponent);
  return patterns;
}

int64_t find(DType dtype, const std::vector<uint32_t>& patterns, size_t offset, bool reference) {
  auto* const look = reference ? first_not_finite_reference : first_not_finite;
  const auto count = static_cast<int64_t>(patterns.size() - offset);
  if (dtype == DType::kF32) return look(dtype, patterns.data() + offset, count);
  const std::vector<uint16_t> narrow(patterns.begin(), patterns.end());
  return look(dtype, narrow.data() + offset, count);
}

TEST(FirstNotFinite, FindsTheFirstOnEveryTarget) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    std::mt19937 random(9);
    for (const DType dtype : kTypes) {
      const uint32_t infinity = dtype == DType::kF32   ? 0x7F800000
                                : dtype == DType::kF16 ? 0x7C00
                                                       : 0x7F80;
      for (const size_t count : {1u, 2u, 31u, 64u, 65u, 127u, 1'000u, 32'768u, 70'001u}) {
        std::vector<uint32_t> patterns = finite_patterns(dtype, count, random);
        ASSERT_EQ(find(dtype, patterns, 0, false), -1);
        ASSERT_EQ(find(dtype, patterns, count > 1 ? 1 : 0, false), -1) << "from an odd place";
        for (int i = 0; i < 8; ++i) {
          std::vector<uint32_t> bad = patterns;
          const uint32_t sign = dtype == DType::kF32 ? 0x80000000 : 0x8000;
          for (int n = i % 3; n >= 0; --n)
            bad[random() % count] =
                infinity | (i % 2 ? sign : 0) | (random() % 3 ? random() & 7 : 0);
          bad[i == 0 ? 0 : i == 1 ? count - 1 : random() % count] = infinity;
          const int64_t expected = find(dtype, bad, 0, true);
          ASSERT_GE(expected, 0);
          ASSERT_EQ(find(dtype, bad, 0, false), expected)
              << dtype_name(dtype) << " x " << count << " on " << hwy::TargetName(target);
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(FirstNotFinite, EveryBf16AndF16PatternIsJudgedAsItsFloatIs) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto narrow = static_cast<uint16_t>(pattern);
    const float value = std::bit_cast<float>(pattern << 16);
    ASSERT_EQ(first_not_finite(DType::kBf16, &narrow, 1) < 0, std::isfinite(value)) << pattern;
    const bool f16_finite = ((pattern >> 10) & 31) != 31;
    ASSERT_EQ(first_not_finite(DType::kF16, &narrow, 1) < 0, f16_finite) << pattern;
  }
}

TEST(FirstNotFinite, NothingIsFinite) { EXPECT_EQ(first_not_finite(DType::kF32, nullptr, 0), -1); }

TEST(NotFinite, NamesTensorAndPlace) {
  const std::vector<uint16_t> values = {0, 0, 0, 0, 0x7F80, 0xFFC1};
  const TensorView tensor{"layers.3.weight", DType::kBf16, {3, 2}, values.data(), 12};
  EXPECT_NE(not_finite(tensor, 5).message.find("tensor \"layers.3.weight\" holds NaN at [2, 1]"),
            std::string::npos);
  EXPECT_NE(not_finite(tensor, 4).message.find("an infinite value at [2, 0]"), std::string::npos);
}

}  // namespace
}  // namespace fovea
