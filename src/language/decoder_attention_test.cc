// SPDX-License-Identifier: Apache-2.0
// The decoder by other kinds of attention than dense: whichever way it is asked, a token sees what
// its kind says. token_blocks_test.cc shows what that is.
#include <gtest/gtest.h>

#include <random>

#include "language/test_decoder_case.h"

namespace fovea {
namespace {

using test::all_of;
using test::DecoderCase;
using test::difference;

// Other chunks are other sums, of more tokens than in decoder_test.cc.
constexpr double kOtherOrder = 5e-5;

// Text, an image of two parts, text, a second image, text: more than ten blocks of keys.
class LongPrompt {
 public:
  explicit LongPrompt(const TextConfig& config, uint32_t seed = 1) : random_(seed) {
    add_text(config, 21);
    add_visual(config, 300);
    add_visual(config, 130);
    add_text(config, 40);
    add_visual(config, 150);
    add_text(config, 30);
    for (size_t i = 0; i < ids.size(); ++i)
      positions.push_back(text_position(static_cast<float>(i)));
    for (size_t i = 0; i < spans.size(); ++i) spans[i].tokens = &visual[i];
  }

  // Tokens [begin, end); `kept` holds the visual ones of them.
  TokenRun part(size_t begin, size_t end, std::vector<VisualSpan>& kept) const {
    kept.clear();
    for (const VisualSpan& span : spans) {
      const size_t from = std::max(begin, span.at);
      const size_t to = std::min(end, span.at + static_cast<size_t>(span.count));
      if (from < to)
        kept.push_back({from - begin, span.tokens, static_cast<int>(from - span.at),
                        static_cast<int>(to - from)});
    }
    return {std::span(ids).subspan(begin, end - begin),
            std::span(positions).subspan(begin, end - begin), kept};
  }
  TokenRun run() const { return {ids, positions, spans}; }
  size_t text_begin() const { return static_cast<size_t>(images.back().end); }

  std::vector<int> ids;
  std::vector<TokenPosition> positions;
  std::vector<VisualTokens> visual;
  std::vector<VisualSpan> spans;
  std::vector<TokenRange> images;

 private:
  void add_text(const TextConfig& config, int count) {
    for (int i = 0; i < count; ++i)
      ids.push_back(static_cast<int>(random_() % static_cast<unsigned>(config.vocab_size)));
  }
  void add_visual(const TextConfig& config, int count) {
    VisualTokens tokens;
    tokens.count = count;
    tokens.width = config.hidden_size;
    tokens.features = Buffer<float>(static_cast<size_t>(count * config.hidden_size));
    std::normal_distribution<float> normal;
    for (float& value : tokens.features) value = normal(random_);
    const auto at = static_cast<int64_t>(ids.size());
    spans.push_back({ids.size(), nullptr, 0, count});
    images.push_back({at, at + count});
    ids.insert(ids.end(), static_cast<size_t>(count), 0);
    visual.push_back(std::move(tokens));
  }

  std::mt19937 random_;
};

class DecoderAttention : public testing::Test {
 protected:
  ForwardOptions by(const AttentionSchedule& attention, int chunk_tokens = 0) const {
    ForwardOptions options;
    options.attention = attention;
    options.images = prompt.images;
    options.chunk_tokens = chunk_tokens;
    return options;
  }
  Buffer<float> forward(const TokenRun& run, DecoderMemory& memory, const ForwardOptions& options) {
    return *c.decoder.forward(c.threads, run, memory, options);
  }
  Buffer<float> whole(const AttentionSchedule& attention, int chunk_tokens = 0) {
    DecoderMemory memory;
    ForwardOptions options = by(attention, chunk_tokens);
    options.all_logits = true;
    return forward(prompt.run(), memory, options);
  }
  // What each layer made of all tokens.
  std::vector<std::vector<float>> layers_of(const AttentionSchedule& attention) {
    std::vector<std::vector<float>> layers;
    ForwardOptions options = by(attention, 4096);
    options.on_layer = [&](int, int64_t, int64_t tokens, const float* hidden) {
      layers.emplace_back(hidden, hidden + tokens * c.golden.text().hidden_size);
    };
    DecoderMemory memory;
    forward(prompt.run(), memory, options);
    return layers;
  }

  DecoderCase c{5};
  LongPrompt prompt{c.golden.text()};
};

std::vector<AttentionKindRow> sparse_kinds() {
  std::vector<AttentionKindRow> rows = attention_kinds(AttentionPlace::kText);
  std::erase_if(rows,
                [](const AttentionKindRow& row) { return row.kind == AttentionKind::kDense; });
  return rows;
}

TEST_F(DecoderAttention, EveryKindChangesWhatIsSaidAndIsTheSameInAnyChunks) {
  const Buffer<float> dense = whole({});
  for (const AttentionKindRow& row : sparse_kinds()) {
    const Buffer<float> logits = whole({row.kind, 0});
    EXPECT_GT(difference(all_of(dense), all_of(logits)), 1e-3) << row.name;
    for (const int chunk : {37, 64, 300})
      EXPECT_LE(difference(all_of(logits), all_of(whole({row.kind, 0}, chunk))), kOtherOrder)
          << row.name << ", chunks of " << chunk;
  }
}

TEST_F(DecoderAttention, StepsSeeWhatARunSees) {
  const auto vocab = static_cast<size_t>(c.golden.text().vocab_size);
  for (const AttentionKindRow& row : sparse_kinds()) {
    const Buffer<float> logits = whole({row.kind, 0});
    DecoderMemory memory;
    std::vector<VisualSpan> kept;
    forward(prompt.part(0, prompt.text_begin(), kept), memory, by({row.kind, 0}));
    for (size_t i = prompt.text_begin(); i < prompt.ids.size(); ++i) {
      const auto step = forward(prompt.part(i, i + 1, kept), memory, by({row.kind, 0}));
      ASSERT_LE(difference(all_of(logits).subspan(i * vocab, vocab), all_of(step)), kOtherOrder)
          << row.name << ", token " << i;
    }
  }
}

TEST_F(DecoderAttention, StepsOfDifferentKindsHaveTheBitsTheyHaveAlone) {
  std::vector<AttentionSchedule> kinds = {AttentionSchedule()};
  for (const AttentionKindRow& row : sparse_kinds()) kinds.emplace_back(row.kind, 0);
  kinds.emplace_back(std::vector<SparseSettings>{{AttentionKind::kWindow, 0}, {}});
  std::vector<DecoderMemory> memories(kinds.size());
  std::vector<VisualSpan> kept;
  const size_t last = prompt.ids.size() - 1;
  std::vector<std::vector<float>> alone;
  std::vector<ForwardRequest> requests;
  const std::vector<VisualSpan> none;
  const TokenRun step{std::span(prompt.ids).subspan(last),
                      std::span(prompt.positions).subspan(last), none};
  for (size_t i = 0; i < kinds.size(); ++i) {
    forward(prompt.part(0, last, kept), memories[i], by(kinds[i]));
    const Buffer<float> logits = forward(step, memories[i], by(kinds[i]));
    alone.emplace_back(logits.begin(), logits.end());
    memories[i].truncate(static_cast<int64_t>(last));
    requests.push_back({step, &memories[i], by(kinds[i]), /*wants_logits=*/true});
  }
  c.decoder.work(c.threads, requests);
  for (size_t i = 0; i < kinds.size(); ++i) {
    ASSERT_TRUE(requests[i].done());
    EXPECT_EQ(std::vector<float>(requests[i].logits.begin(), requests[i].logits.end()), alone[i])
        << kinds[i].text();
  }
}

TEST_F(DecoderAttention, AnyNumberOfThreadsGivesTheSameBits) {
  for (const AttentionKindRow& row : sparse_kinds()) {
    std::vector<float> first;
    for (const int count : {1, 2, 3}) {
      Threads threads(count);
      DecoderMemory memory;
      const auto logits = *c.decoder.forward(threads, prompt.run(), memory, by({row.kind, 0}));
      const std::vector<float> values(logits.begin(), logits.end());
      if (first.empty()) first = values;
      EXPECT_EQ(values, first) << row.name << ", " << count << " threads";
    }
  }
}

// A schedule has each layer do what it does where all layers do, on what came before.
TEST_F(DecoderAttention, LayersHaveTheirOwnKinds) {
  const int layers = c.golden.text().num_layers;
  ASSERT_GE(layers, 2);
  const SparseSettings window{.kind = AttentionKind::kWindow};
  const auto dense = layers_of({});
  const auto sparse = layers_of(window);
  const auto low = layers_of(AttentionSchedule({window, {}}));
  const auto high = layers_of(AttentionSchedule({{}, window}));
  EXPECT_EQ(low.front(), sparse.front());
  EXPECT_EQ(high.front(), dense.front());
  EXPECT_GT(difference(sparse.back(), low.back()), 1e-4);
  EXPECT_GT(difference(dense.back(), high.back()), 1e-4);
}

// The first token of an image knows of the last one by prefix, and of nothing after it otherwise.
TEST_F(DecoderAttention, ByPrefixATokenKnowsOfAllItsImage) {
  const auto width = static_cast<size_t>(c.golden.text().hidden_size);
  const auto row = [&](const std::vector<float>& hidden, int64_t token) {
    const auto* from = hidden.data() + static_cast<size_t>(token) * width;
    return std::vector<float>(from, from + width);
  };
  const AttentionSchedule prefix(AttentionKind::kPrefix, 0);
  const std::vector<float> dense = layers_of({}).back();
  const std::vector<float> with_prefix = layers_of(prefix).back();
  Buffer<float>& features = prompt.visual[0].features;
  for (size_t i = features.size() - width; i < features.size(); ++i) features[i] += 1;
  const TokenRange image = prompt.images[0];
  EXPECT_EQ(row(layers_of({}).back(), image.begin), row(dense, image.begin));
  const std::vector<float> changed = layers_of(prefix).back();
  EXPECT_NE(row(changed, image.begin), row(with_prefix, image.begin));
  EXPECT_EQ(row(changed, image.begin - 1), row(with_prefix, image.begin - 1)) << "text is causal";
  EXPECT_NE(row(changed, image.end), row(with_prefix, image.end));
}

}  // namespace
}  // namespace fovea
