// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/test_plain_keys.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

struct Shape {
  int heads;
  int kv_heads;
  int head_dim;
  int64_t queries;
  int64_t keys;
  bool causal = false;
  bool bias = false;
  float spread =
      1;  // of queries and keys: 12 gives scores beyond +-80, whose exponentials overflow
};

std::string name(const Shape& shape) {
  return std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " heads of " +
         std::to_string(shape.head_dim) + ", " + std::to_string(shape.queries) + " queries, " +
         std::to_string(shape.keys) + " keys" + (shape.causal ? ", causal" : "") +
         (shape.bias ? ", bias" : "") + (shape.spread > 1 ? ", large" : "");
}

struct Case {
  std::vector<float> q;
  std::vector<float> bias;
  PlainKeys kv;
  AttentionParams params;
  int64_t q_stride = 0;
  float largest_value = 0;
  float largest_score = 0;

  Case(const Shape& shape, std::mt19937& random, KeyFormat format = KeyFormat::kF32,
       int page_tokens = 0)
      : kv(shape.kv_heads, shape.head_dim, page_tokens, format) {
    q_stride = int64_t{shape.heads} * shape.head_dim + 3;
    const int64_t kv_stride = int64_t{shape.kv_heads} * shape.head_dim + 1;
    q = random_values(static_cast<size_t>(shape.queries * q_stride), random, shape.spread);
    const auto kv_values = static_cast<size_t>(shape.keys * kv_stride);
    const auto k = random_values(kv_values, random, shape.spread);
    const auto v = random_values(kv_values, random);
    kv.append(k.data(), kv_stride, v.data(), kv_stride, shape.keys);
    for (const float value : v) largest_value = std::max(largest_value, std::abs(value));
    if (shape.bias) bias = random_values(static_cast<size_t>(shape.keys), random, 3);
    params = {.heads = shape.heads,
              .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
              .causal = shape.causal,
              .first_query = std::max<int64_t>(0, shape.keys - shape.queries),
              .key_bias = shape.bias ? bias.data() : nullptr};
    largest_score = 6 * shape.spread * shape.spread + (shape.bias ? 10.0f : 0.0f);
  }

  // Rounding a score s in f32 costs some |s| * 1e-7, and that is the relative error of its weight;
  // sums of thousands of weights and products add some 1e-6.
  float tolerance() const { return largest_value * (2e-6f + 2e-7f * largest_score); }
};

constexpr Shape kShapes[] = {
    {1, 1, 4, 1, 1},
    {1, 1, 8, 1, 2},
    {2, 2, 20, 2, 3},
    {3, 1, 72, 3, 17},
    {4, 2, 80, 4, 9, true},
    {16, 8, 128, 1, 1, true},
    {16, 8, 128, 1, 700, true},
    {4, 4, 64, 1, 257, false, true},
    {5, 1, 36, 1, 1000, true, true, 12},
    {2, 1, 128, 5, 300, true},
    {6, 2, 8, 7, 130, true, true},
    {2, 2, 64, 6, 129},
    {3, 3, 64, 47, 48},
    {1, 1, 256, 49, 127},
    {2, 1, 128, 33, 640, true},
    {2, 1, 12, 100, 100, true, true},
    {2, 2, 72, 64, 200, false, true, 12},
    {1, 1, 64, 193, 511},
    {1, 1, 20, 272, 272, false, true},
    {2, 1, 80, 130, 386, true, false, 12},
    {1, 1, 64, 400, 900, true},
    {2, 1, 100, 97, 131},
};

TEST(Attention, EqualsTheReferenceOnEveryTargetAndForAnyNumberOfThreads) {
  std::mt19937 random(14);
  for (const Shape& shape : kShapes) {
    const Case given(shape, random);
    const int64_t width = int64_t{shape.heads} * shape.head_dim;
    const int64_t out_stride = width + 2;
    const auto out_values = static_cast<size_t>(shape.queries * out_stride);
    auto expected = poisoned(out_values);
    attention_reference(given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                        given.params, expected.data(), out_stride);
    on_every_target([&](const std::string& target) {
      std::vector<float> first;
      for (const int thread_count : {1, 2, 3}) {
        Threads threads(thread_count);
        auto got = poisoned(out_values);
        attention(threads, given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                  given.params, got.data(), out_stride);
        for (size_t i = 0; i < out_values; ++i) {
          if (static_cast<int64_t>(i) % out_stride >= width)
            ASSERT_TRUE(std::isnan(got[i])) << "wrote between rows: " << name(shape);
          else
            ASSERT_NEAR(got[i], expected[i], given.tolerance())
                << target << ", " << name(shape) << ", query " << i / out_stride << ", value "
                << i % out_stride;
        }
        if (first.empty()) first = got;
        ASSERT_TRUE(same_bits(got, first))
            << target << ", " << name(shape) << ", " << thread_count << " threads";
      }
    });
  }
}

// Rows of every format are what they say they are, also where they lie in pages.
TEST(Attention, OverStoredRowsEqualsTheReferenceOnEveryTarget) {
  constexpr int kPages[] = {0, PagedKeys::kNarrowPageStep, 56, 248};
  Threads threads(2);
  for (const KeyFormat format : {KeyFormat::kBf16, KeyFormat::kInt8, KeyFormat::kFp8}) {
    std::mt19937 random(20);
    int next = 0;
    for (const Shape& shape : kShapes) {
      const Case given(shape, random, format, kPages[next++ % std::size(kPages)]);
      const int64_t width = int64_t{shape.heads} * shape.head_dim;
      const auto count = static_cast<size_t>(shape.queries * width);
      auto expected = poisoned(count);
      attention_reference(given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                          given.params, expected.data(), width);
      auto expected_mass = poisoned(static_cast<size_t>(shape.keys));
      attention_mass_reference(given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                               given.params, 0, shape.keys, expected_mass.data());
      on_every_target([&](const std::string& target) {
        const std::string what = target + ", " + row_of(format).name + ", " + name(shape);
        auto got = poisoned(count);
        attention(threads, given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                  given.params, got.data(), width);
        for (size_t i = 0; i < count; ++i)
          ASSERT_NEAR(got[i], expected[i], given.tolerance()) << what << ", at " << i;
        auto mass = poisoned(expected_mass.size());
        attention_mass(threads, given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                       given.params, 0, shape.keys, mass.data());
        for (size_t i = 0; i < mass.size(); ++i)
          ASSERT_NEAR(mass[i], expected_mass[i],
                      1e-9f + expected_mass[i] * (4e-6f + 4e-7f * given.largest_score))
              << what << ", key " << i;
      });
    }
  }
}

// A cached beginning is of use only if later queries get what they would have got at once.
TEST(Attention, CausalQueriesDoNotSeeWhatFollows) {
  std::mt19937 random(15);
  const Shape shape{4, 2, 64, 300, 300, true};
  const Case given(shape, random);
  const int64_t width = int64_t{shape.heads} * shape.head_dim;
  Threads threads(2);
  on_every_target([&](const std::string& target) {
    std::vector<float> all(static_cast<size_t>(300 * width));
    attention(threads, given.q.data(), given.q_stride, 300, given.kv.view(), given.params,
              all.data(), width);
    for (const int64_t keys : {40, 128, 201}) {
      PlainKeys some(shape.kv_heads, shape.head_dim);
      for (int64_t t = 0; t < keys; ++t) {
        std::vector<float> k;
        std::vector<float> v;
        for (int head = 0; head < shape.kv_heads; ++head) {
          k.insert(k.end(), given.kv.key(head, t), given.kv.key(head, t) + shape.head_dim);
          v.insert(v.end(), given.kv.value(head, t), given.kv.value(head, t) + shape.head_dim);
        }
        some.append(k.data(), 0, v.data(), 0, 1);
      }
      std::vector<float> got(static_cast<size_t>(keys * width));
      attention(threads, given.q.data(), given.q_stride, keys, some.view(), given.params,
                got.data(), width);
      ASSERT_TRUE(std::equal(got.begin(), got.end(), all.begin()))
          << target << ", " << keys << " keys";
    }
  });
}

// With equal keys every value counts the same, whatever the query.
TEST(Attention, EqualKeysGiveTheMeanOfTheValues) {
  std::mt19937 random(16);
  constexpr int kDim = 64;
  constexpr int64_t kKeys = 333;
  const auto key = random_values(kDim, random);
  const auto values = random_values(kKeys * kDim, random);
  const auto q = random_values(50 * kDim, random, 5);
  PlainKeys kv(1, kDim);
  kv.append(key.data(), 0, values.data(), kDim, kKeys);
  std::vector<double> mean(kDim);
  for (int64_t t = 0; t < kKeys; ++t)
    for (int d = 0; d < kDim; ++d) mean[d] += values[t * kDim + d] / double{kKeys};
  Threads threads(2);
  for (const int64_t queries : {1, 3, 50}) {
    auto out = poisoned(static_cast<size_t>(queries * kDim));
    attention(threads, q.data(), kDim, queries, kv.view(), {.heads = 1, .scale = 1}, out.data(),
              kDim);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], mean[i % kDim], 3e-6f);
  }
}

TEST(Attention, ABiasThatExcludesKeysLeavesTheOthers) {
  std::mt19937 random(17);
  const Shape shape{2, 2, 32, 60, 300};
  Case given(shape, random);
  PlainKeys rest(2, 32);
  for (int64_t t = 150; t < 300; ++t) {
    std::vector<float> k;
    std::vector<float> v;
    for (int head = 0; head < 2; ++head) {
      k.insert(k.end(), given.kv.key(head, t), given.kv.key(head, t) + 32);
      v.insert(v.end(), given.kv.value(head, t), given.kv.value(head, t) + 32);
    }
    rest.append(k.data(), 0, v.data(), 0, 1);
  }
  std::vector<float> bias(300, 0.0f);
  std::fill(bias.begin(), bias.begin() + 150, -std::numeric_limits<float>::infinity());
  Threads threads(1);
  for (const int64_t queries : {1, 60}) {
    auto expected = poisoned(static_cast<size_t>(queries * 64));
    attention(threads, given.q.data(), given.q_stride, queries, rest.view(), given.params,
              expected.data(), 64);
    given.params.key_bias = bias.data();
    auto got = poisoned(expected.size());
    attention(threads, given.q.data(), given.q_stride, queries, given.kv.view(), given.params,
              got.data(), 64);
    given.params.key_bias = nullptr;
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], given.tolerance()) << queries << " queries, at " << i;
  }
}

TEST(AttentionMass, EqualsTheReferenceOnEveryTargetAndForAnyNumberOfThreads) {
  std::mt19937 random(18);
  for (const Shape& shape : kShapes) {
    const Case given(shape, random);
    for (const bool all : {true, false}) {
      const int64_t begin = all ? 0 : shape.keys / 3;
      const int64_t end = all ? shape.keys : std::max(begin + 1, shape.keys * 2 / 3);
      const auto count = static_cast<size_t>(end - begin);
      auto expected = poisoned(count);
      attention_mass_reference(given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                               given.params, begin, end, expected.data());
      on_every_target([&](const std::string& target) {
        std::vector<float> first;
        for (const int thread_count : {1, 2, 3}) {
          Threads threads(thread_count);
          auto got = poisoned(count);
          attention_mass(threads, given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                         given.params, begin, end, got.data());
          for (size_t i = 0; i < count; ++i)
            ASSERT_NEAR(got[i], expected[i],
                        1e-9f + expected[i] * (4e-6f + 4e-7f * given.largest_score))
                << target << ", " << name(shape) << ", key " << i + begin;
          if (first.empty()) first = got;
          ASSERT_TRUE(same_bits(got, first)) << target << ", " << name(shape);
        }
      });
    }
  }
}

// Which keys stand out for whom, what each query gives them, and queries that count for more.
TEST(AttentionMass, TellsWhatStandsOutAndWhatEachQueryGives) {
  std::mt19937 random(19);
  for (const Shape& shape : kShapes) {
    const Case given(shape, random);
    const int64_t begin = shape.keys / 3;
    const int64_t end = std::max(begin + 1, shape.keys * 2 / 3);
    const auto count = static_cast<size_t>(end - begin);
    const auto queries = static_cast<size_t>(shape.queries);
    std::vector<float> parts(queries);
    for (float& part : parts) part = static_cast<float>(random() % 3);
    struct Results {
      std::vector<float> mass, standing_out, given;
    };
    for (const bool all : {true, false}) {
      const float* counts = all ? nullptr : parts.data();
      const auto fresh = [&] {
        return Results{poisoned(count), poisoned(count), poisoned(queries)};
      };
      Results expected = fresh();
      attention_mass_reference(given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                               given.params, begin, end, expected.mass.data(),
                               {counts, expected.standing_out.data(), expected.given.data()});
      on_every_target([&](const std::string& target) {
        Results first;
        for (const int thread_count : {1, 2, 3}) {
          Threads threads(thread_count);
          Results got = fresh();
          attention_mass(threads, given.q.data(), given.q_stride, shape.queries, given.kv.view(),
                         given.params, begin, end, got.mass.data(),
                         {counts, got.standing_out.data(), got.given.data()});
          const float near = 4e-6f + 4e-7f * given.largest_score;
          double differs = 0;  // a weight near the limit may round to either side of it
          for (size_t i = 0; i < count; ++i) {
            ASSERT_NEAR(got.mass[i], expected.mass[i], 1e-9f + expected.mass[i] * near)
                << target << ", " << name(shape) << ", key " << i + begin;
            differs += std::abs(got.standing_out[i] - expected.standing_out[i]);
          }
          const double pairs = static_cast<double>(queries) * given.params.heads;
          ASSERT_LE(differs, 2 * (1 + 1e-4 * pairs * static_cast<double>(count)) / pairs)
              << target << ", " << name(shape);
          for (size_t i = 0; i < queries; ++i)
            ASSERT_NEAR(got.given[i], expected.given[i], 1e-6f + expected.given[i] * 2 * near)
                << target << ", " << name(shape) << ", query " << i;
          if (first.mass.empty()) first = got;
          ASSERT_TRUE(same_bits(got.mass, first.mass) &&
                      same_bits(got.standing_out, first.standing_out) &&
                      same_bits(got.given, first.given))
              << target << ", " << name(shape);
        }
      });
    }
  }
}

}  // namespace
}  // namespace fovea
