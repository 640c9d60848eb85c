// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/token_blocks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/test_plain_keys.h"
#include "ops/test_values.h"

namespace fovea {
namespace {

struct Shape {
  const char* name;
  int64_t keys = 1;
  int64_t queries = 1;  // the last ones
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 8;
  int page_tokens = 0;
  std::vector<TokenRange> images = {};
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kAll = {
      {"one token", 1, 1},
      {"less than a block", 63, 63, 2, 1, 12, 16, {{3, 40}}},
      {"a block", 64, 64, 3, 3, 20, 64},
      {"one more", 65, 65, 4, 2, 16, 64, {{0, 64}}},
      {"an image of many blocks", 700, 700, 4, 2, 32, 64, {{10, 600}}},
      {"pages of three blocks", 650, 300, 4, 1, 16, 192, {{20, 340}, {400, 590}}},
      {"pages that blocks straddle", 600, 77, 2, 2, 8, 48, {{64, 576}}},
      {"memory in one piece", 517, 517, 6, 2, 36, 0, {{1, 500}}},
      {"a step", 831, 1, 8, 2, 64, 64, {{5, 800}}},
      {"a step at the end of a block", 832, 1, 2, 1, 72, 64, {{0, 320}, {320, 777}}},
  };
  return kAll;
}

struct Case {
  PlainKeys kv;
  PagedKeys view;
  std::vector<float> q;
  AttentionParams params;
  const Shape& shape;
  int64_t width = 0;

  Case(const Shape& of, std::mt19937& random)
      : kv(of.kv_heads, of.head_dim, of.page_tokens), shape(of) {
    width = int64_t{of.heads} * of.head_dim;
    const int64_t kv_width = int64_t{of.kv_heads} * of.head_dim;
    q = random_values(static_cast<size_t>(of.queries * q_stride()), random, 2);
    const auto k = random_values(static_cast<size_t>(of.keys * kv_width), random, 2);
    const auto v = random_values(static_cast<size_t>(of.keys * kv_width), random);
    kv.append(k.data(), kv_width, v.data(), kv_width, of.keys);
    view = kv.view();
    params = {.heads = of.heads,
              .scale = 1 / std::sqrt(static_cast<float>(of.head_dim)),
              .causal = true,
              .first_query = of.keys - of.queries};
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  int64_t q_stride() const { return width + 3; }
  TokenAttention given() const {
    return {q.data(), q_stride(), shape.queries, &view, &params, shape.images};
  }
};

// Whether a range is cut by the first query: no call of prefix may begin inside of one.
bool cuts_an_image(const Shape& shape) {
  const int64_t first = shape.keys - shape.queries;
  for (const TokenRange& range : shape.images)
    if (range.begin < first && first < range.end) return true;
  return false;
}

TEST(TokenAttention, EqualsItsReferenceForEveryKindTargetAndNumberOfThreads) {
  std::mt19937 random(3);
  for (const Shape& shape : shapes()) {
    const Case made(shape, random);
    const int64_t stride = made.width + 2;
    const auto values = static_cast<size_t>(shape.queries * stride);
    for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kText)) {
      const SparseSettings kind{row.kind, row.by_blocks ? 0.3 : 0};
      auto expected = poisoned(values);
      attend_to_tokens_reference(made.given(), kind, expected.data(), stride);
      on_every_target([&](const std::string& target) {
        std::vector<float> first;
        for (const int thread_count : {1, 2, 3}) {
          Threads threads(thread_count);
          auto got = poisoned(values);
          attend_to_tokens(threads, made.given(), kind, got.data(), stride);
          for (size_t i = 0; i < values; ++i) {
            if (static_cast<int64_t>(i) % stride >= made.width)
              ASSERT_TRUE(std::isnan(got[i])) << "wrote between rows: " << shape.name;
            else  // scores to about 30: 30 * 1e-7 of a weight, and values to about 5
              ASSERT_NEAR(got[i], expected[i], 3e-5)
                  << shape.name << ", " << row.name << ", " << target << ", value " << i;
          }
          if (first.empty()) first = got;
          ASSERT_TRUE(same_bits(got, first)) << shape.name << ", " << row.name << ", " << target;
        }
      });
    }
  }
}

TEST(TokenAttention, DenseHasTheBitsOfAttention) {
  std::mt19937 random(4);
  for (const Shape& shape : shapes()) {
    const Case made(shape, random);
    Threads threads(2);
    std::vector<float> got(static_cast<size_t>(shape.queries * made.width));
    std::vector<float> dense(got.size());
    attend_to_tokens(threads, made.given(), {}, got.data(), made.width);
    attention(threads, made.q.data(), made.q_stride(), shape.queries, made.view, made.params,
              dense.data(), made.width);
    EXPECT_TRUE(same_bits(got, dense)) << shape.name;
  }
}

// What stands behind a token, and what it may not see, is read by nothing: it is NaN here.
TEST(TokenAttention, ATokenSeesWhatItsKindSaysAndNothingElse) {
  constexpr int64_t kKeys = 1000;
  const std::vector<TokenRange> images = {{70, 900}};
  std::mt19937 random(5);
  for (const int64_t position : {0, 63, 64, 600, 640, 999}) {
    const auto own = position / kTokenBlock;
    for (const AttentionKind kind : {AttentionKind::kStrided, AttentionKind::kWindow}) {
      const auto sees = [&](int64_t block) {
        if (block == own) return true;
        if (kind == AttentionKind::kStrided)
          return block < own && (block % 4 == 0 || block == own - 1);
        return block < own && (block == 0 || own - block < 8);
      };
      PlainKeys kv(1, 8, 64);
      for (int64_t t = 0; t < kKeys; ++t) {
        auto k = random_values(8, random);
        if (!sees(t / kTokenBlock) || t > position) k = poisoned(8);
        const auto v = random_values(8, random);
        kv.append(k.data(), 8, v.data(), 8, 1);
      }
      const PagedKeys view = kv.view();
      const auto q = random_values(8, random);
      const AttentionParams params{.heads = 1, .causal = true, .first_query = position};
      Threads threads(1);
      auto out = poisoned(8);
      attend_to_tokens(threads, {q.data(), 8, 1, &view, &params, images}, {kind, 0}, out.data(), 8);
      for (const float value : out) EXPECT_TRUE(std::isfinite(value)) << "token " << position;
    }
  }
}

TEST(TokenAttention, TopBlocksHaveAllTextTheirOwnBlockAndAShareOfTheOthers) {
  const std::vector<TokenRange> images = {{70, 300}, {300, 900}};
  const SeenBlocks seen = seen_blocks({AttentionKind::kTopBlocks, 0.5}, images, 15);
  // Block 1 begins with text, block 14 ends with it; what was encoded in two pieces is one image.
  EXPECT_EQ(seen.always, (std::vector<int>{0, 1, 14}));
  EXPECT_EQ(seen.candidates.size(), 12u);
  EXPECT_EQ(seen.count, 6);
  EXPECT_EQ(seen_blocks({AttentionKind::kTopBlocks, 0.01}, images, 15).count, 1);
  EXPECT_EQ(seen_blocks({AttentionKind::kTopBlocks, 1}, images, 15).count, 12);
  EXPECT_EQ(seen_blocks({AttentionKind::kTopBlocks, 0}, images, 15).count, 3) << "a quarter";
  EXPECT_EQ(seen_blocks({AttentionKind::kTopBlocks, 0.5}, {}, 15).always.size(), 15u);
}

TEST(TokenAttention, IsDenseWhereEverythingIsSeen) {
  std::mt19937 random(6);
  for (const Shape& shape : shapes()) {
    const Case made(shape, random);
    Threads threads(2);
    std::vector<float> dense(static_cast<size_t>(shape.queries * made.width));
    attend_to_tokens_reference(made.given(), {}, dense.data(), made.width);
    const auto expect_dense = [&](const TokenAttention& given, const SparseSettings& settings) {
      std::vector<float> got(dense.size());
      attend_to_tokens(threads, given, settings, got.data(), made.width);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], dense[i], 3e-5) << shape.name;
      EXPECT_EQ(share_of_keys(given, settings), 1);
    };
    expect_dense(made.given(), {AttentionKind::kTopBlocks, 1});
    TokenAttention text = made.given();
    text.images = {};
    expect_dense(text, {AttentionKind::kTopBlocks, 0.1});
    expect_dense(text, {AttentionKind::kPrefix, 0});
    if (shape.keys <= 8 * kTokenBlock) expect_dense(text, {AttentionKind::kWindow, 0});
  }
}

// However a sequence is cut into calls, but that prefix takes an image whole.
TEST(TokenAttention, StepsAndPiecesGiveWhatOneCallGives) {
  std::mt19937 random(7);
  for (const Shape& shape : shapes()) {
    const Case made(shape, random);
    Threads threads(2);
    for (const AttentionKindRow& row : attention_kinds(AttentionPlace::kText)) {
      if (row.kind == AttentionKind::kPrefix) continue;
      const SparseSettings kind{row.kind, row.by_blocks ? 0.3 : 0};
      std::vector<float> whole(static_cast<size_t>(shape.queries * made.width));
      attend_to_tokens(threads, made.given(), kind, whole.data(), made.width);
      for (const int64_t piece : {1, 50}) {
        std::vector<float> pieces(whole.size(), NAN);
        for (int64_t begin = 0; begin < shape.queries; begin += piece) {
          const int64_t end = std::min(begin + piece, shape.queries);
          AttentionParams params = made.params;
          params.first_query += begin;
          PagedKeys kv = made.view;  // what follows is not there yet
          kv.size = params.first_query + end - begin;
          if (shape.page_tokens == 0) kv.page_tokens = static_cast<int>(shape.keys);
          TokenAttention given = made.given();
          given.q += begin * made.q_stride();
          given.queries = end - begin;
          given.kv = &kv;
          given.params = &params;
          attend_to_tokens(threads, given, kind, pieces.data() + begin * made.width, made.width);
        }
        for (size_t i = 0; i < whole.size(); ++i)
          ASSERT_NEAR(pieces[i], whole[i], 3e-5) << shape.name << ", " << row.name << ", " << piece;
      }
    }
  }
}

TEST(TokenAttention, ByPrefixTheTokensOfAnImageSeeEachOther) {
  std::mt19937 random(8);
  for (const Shape& shape : shapes()) {
    if (shape.images.empty() || cuts_an_image(shape)) continue;
    const Case made(shape, random);
    Threads threads(2);
    std::vector<float> got(static_cast<size_t>(shape.queries * made.width), NAN);
    attend_to_tokens(threads, made.given(), {AttentionKind::kPrefix, 0}, got.data(), made.width);
    for (int64_t i = 0; i < shape.queries; ++i) {
      const int64_t position = made.params.first_query + i;
      int64_t end = position + 1;
      for (const TokenRange& range : shape.images)
        if (position >= range.begin && position < range.end) end = range.end;
      // Dense attention without a mask, to the keys up to there alone.
      AttentionParams params = made.params;
      params.causal = false;
      PagedKeys kv = made.view;
      kv.size = end;
      std::vector<float> expected(static_cast<size_t>(made.width));
      attention_reference(made.q.data() + i * made.q_stride(), made.q_stride(), 1, kv, params,
                          expected.data(), made.width);
      for (int64_t c = 0; c < made.width; ++c)
        ASSERT_NEAR(got[static_cast<size_t>(i * made.width + c)], expected[static_cast<size_t>(c)],
                    3e-5)
            << shape.name << ", token " << position;
    }
  }
}

}  // namespace
}  // namespace fovea
