// SPDX-License-Identifier: Apache-2.0
// Attention over pages gives the bits that it gives over memory in one piece.
#include <cmath>

#include "ops/attention/attention.h"
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
};

// One query and many, keys that fill pages, blocks and parts exactly, and one more or less.
constexpr Shape kShapes[] = {
    {2, 1, 4, 1, 1},
    {4, 2, 64, 1, 16},
    {16, 8, 128, 1, 700, true},
    {2, 2, 20, 3, 257},
    {4, 2, 8, 7, 130, true},
    {2, 2, 64, 50, 128},
    {3, 3, 72, 47, 129},
    {2, 1, 128, 33, 640, true},
    {1, 1, 64, 193, 511},
    {2, 1, 80, 130, 386, true},
    {1, 1, 256, 49, 127},
};

constexpr int kPageTokens[] = {16, 48, 64, 256};

class AttentionPages : public testing::TestWithParam<Shape> {
 protected:
  AttentionPages() {
    std::mt19937 random(21);
    const Shape& shape = GetParam();
    q = random_values(static_cast<size_t>(shape.queries) * width(), random);
    k = random_values(static_cast<size_t>(shape.keys) * kv_width(), random);
    v = random_values(k.size(), random);
    bias = random_values(static_cast<size_t>(shape.keys), random);
    params = {.heads = shape.heads,
              .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
              .causal = shape.causal,
              .first_query = std::max<int64_t>(0, shape.keys - shape.queries),
              .key_bias = bias.data()};
  }
  static int64_t width() { return int64_t{GetParam().heads} * GetParam().head_dim; }
  static int64_t kv_width() { return int64_t{GetParam().kv_heads} * GetParam().head_dim; }

  PlainKeys keys(int page_tokens) const {
    PlainKeys kv(GetParam().kv_heads, GetParam().head_dim, page_tokens);
    kv.append(k.data(), kv_width(), v.data(), kv_width(), GetParam().keys);
    return kv;
  }
  std::vector<float> attend(const PlainKeys& kv) {
    auto out = poisoned(q.size());
    attention(threads, q.data(), width(), GetParam().queries, kv.view(), params, out.data(),
              width());
    return out;
  }
  std::vector<float> mass(const PlainKeys& kv, int64_t begin, int64_t end) {
    auto out = poisoned(static_cast<size_t>(end - begin));
    attention_mass(threads, q.data(), width(), GetParam().queries, kv.view(), params, begin, end,
                   out.data());
    return out;
  }

  Threads threads{2};
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<float> bias;
  AttentionParams params;
};

TEST_P(AttentionPages, HaveTheBitsOfOnePiece) {
  on_every_target([&](const std::string& target) {
    const auto expected = attend(keys(0));
    for (const int tokens : kPageTokens)
      ASSERT_TRUE(same_bits(attend(keys(tokens)), expected)) << target << ", pages of " << tokens;
  });
}

TEST_P(AttentionPages, HaveTheMassOfOnePiece) {
  const int64_t count = GetParam().keys;
  on_every_target([&](const std::string& target) {
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, count},
                                     {count / 3, count},
                                     {count / 5, count - count / 4}}) {
      const auto expected = mass(keys(0), begin, end);
      for (const int tokens : kPageTokens)
        ASSERT_TRUE(same_bits(mass(keys(tokens), begin, end), expected))
            << target << ", pages of " << tokens << ", keys from " << begin;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(shapes, AttentionPages, testing::ValuesIn(kShapes));

}  // namespace
}  // namespace fovea
