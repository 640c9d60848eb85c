// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include <cmath>

#include "ops/test_values.h"

namespace fovea {
namespace {

using OneInput = void (*)(Threads&, float*, int64_t);
using OneInputReference = void (*)(float*, int64_t);

// Around zero, where most values lie, and far out, up to where the functions are 0 or x.
std::vector<float> inputs(size_t count, std::mt19937& random) {
  std::vector<float> values = random_values(count, random, 2);
  for (size_t i = 0; i < count; i += 5) values[i] *= 8;
  for (size_t i = 3; i < count; i += 11) values[i] *= 1e3f;
  for (size_t i = 7; i < count; i += 13) values[i] *= 1e-6f;
  return values;
}

// Each step is rounded in f32: the exponential's argument t by |t| * 1.2e-7, which is its relative
// error; where that counts, |t| is below 20. Results below 1e-30 count as 0.
void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                 const std::vector<float>& input, const std::string& what) {
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i],
                1e-30 + 1e-6 * std::abs(expected[i]) + 3e-8 * std::min(1.0f, std::abs(input[i])))
        << what << ", of " << got.size() << " values, first bad index " << i
        << ", x = " << input[i];
}

void compare(OneInput function, OneInputReference reference) {
  on_every_target([&](const std::string& target) {
    std::mt19937 random(1);
    for (const size_t count : {1u, 2u, 3u, 7u, 15u, 16u, 17u, 33u, 6144u, 50'001u}) {
      const std::vector<float> input = inputs(count, random);
      std::vector<float> expected = input;
      reference(expected.data(), static_cast<int64_t>(count));
      std::vector<float> first;
      for (const int thread_count : {1, 2, 3}) {
        Threads threads(thread_count);
        std::vector<float> got = input;
        function(threads, got.data(), static_cast<int64_t>(count));
        expect_near(got, expected, input, target);
        if (first.empty()) first = got;
        ASSERT_TRUE(same_bits(got, first)) << target << ", " << thread_count << " threads";
      }
    }
  });
}

TEST(GeluTanh, EqualsTheReferenceOnEveryTarget) { compare(gelu_tanh, gelu_tanh_reference); }
TEST(Gelu, EqualsTheReferenceOnEveryTarget) { compare(gelu, gelu_reference); }

TEST(Gelu, IsNothingOrItsInputFarOut) {
  on_every_target([](const std::string& target) {
    Threads threads(1);
    for (const OneInput function : {OneInput{gelu}, OneInput{gelu_tanh}}) {
      std::vector<float> x = {-3e38f, -1e20f, -1e4f, -100, -40, 15, 40, 100, 1e4f, 1e20f, 3e38f};
      const std::vector<float> input = x;
      function(threads, x.data(), static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(x[i], input[i] < 0 ? 0 : input[i]) << target << " at " << input[i];
    }
  });
}

// Small steps through the range where the functions bend; the tails keep their relative accuracy.
TEST(Gelu, KeepsItsRelativeAccuracyInTheTail) {
  on_every_target([](const std::string& target) {
    Threads threads(1);
    std::vector<float> x;
    for (int i = -6000; i < 6000; ++i) x.push_back(static_cast<float>(i) * 1e-3f);
    std::vector<float> got = x;
    gelu(threads, got.data(), static_cast<int64_t>(got.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = x[i] * std::erfc(-x[i] / std::sqrt(2.0)) / 2;
      // A few roundings, and on targets without fused multiply-add that of z^2 <= 18, taken twice.
      ASSERT_NEAR(got[i], exact, 4e-6 * std::abs(exact)) << target << " at " << x[i];
    }
  });
}

TEST(SiluMultiply, EqualsTheReferenceOnEveryTarget) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(2);
    for (const size_t count : {1u, 5u, 16u, 31u, 6144u, 40'003u}) {
      const std::vector<float> gate = inputs(count, random);
      const std::vector<float> up = random_values(count, random);
      std::vector<float> expected = gate;
      silu_multiply_reference(expected.data(), up.data(), static_cast<int64_t>(count));
      std::vector<float> first;
      for (const int thread_count : {1, 2, 3}) {
        Threads threads(thread_count);
        std::vector<float> got = gate;
        silu_multiply(threads, got.data(), up.data(), static_cast<int64_t>(count));
        expect_near(got, expected, gate, target);
        if (first.empty()) first = got;
        ASSERT_TRUE(same_bits(got, first)) << target << ", " << thread_count << " threads";
      }
    }
  });
}

TEST(Add, AddsEveryValueOnce) {
  on_every_target([](const std::string& target) {
    std::mt19937 random(3);
    for (const size_t count : {1u, 5u, 16u, 31u, 2048u, 40'003u}) {
      for (const int thread_count : {1, 2, 3}) {
        Threads threads(thread_count);
        std::vector<float> x = random_values(count, random);
        const std::vector<float> y = random_values(count, random);
        std::vector<float> expected = x;
        for (size_t i = 0; i < count; ++i) expected[i] += y[i];
        add(threads, x.data(), y.data(), static_cast<int64_t>(count));
        ASSERT_TRUE(same_bits(x, expected)) << target << ", " << count << " values";
      }
    }
  });
}

}  // namespace
}  // namespace fovea
