// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/stop_loops.h"
#include "vision/test_towers.h"
#include "vision/vision.h"

namespace fovea {
namespace {

using test::parts_of;
using test::range;
using test::take_cells;

constexpr Size kCanvas{224, 96};  // 7 x 3 cells, so that coarse cells hang over two edges

// f32 sums in another order.
constexpr double kSumOrder = 2e-5;

// A level-1 cover and five level-0 cells.
std::vector<Cell> mixed_cells() {
  std::vector<Cell> cells = test::cover(kCanvas, 1);
  for (const Cell& cell : {Cell{0, 0, 0}, {0, 0, 6}, {0, 1, 3}, {0, 1, 4}, {0, 2, 5}})
    cells.push_back(cell);
  return cells;
}
constexpr int kGlance = 8;
constexpr int kAll = 13;

struct TowerTest : testing::Test {
  VisualTokens encode(const Patches& patches, TowerMemory& memory,
                      const EncodeOptions& options = {}) {
    return *tower.encode(threads, patches, kCanvas, memory, options);
  }
  VisualTokens encode(const Patches& patches, const EncodeOptions& options = {}) {
    TowerMemory memory;
    return encode(patches, memory, options);
  }

  Threads threads{2};
  Tower tower = test::random_tower({.depth = 3, .taps = {0, 2}});
  Patches all = test::random_patches(mixed_cells(), kCanvas);
  Patches glance = take_cells(all, range(0, kGlance));
  Patches look = take_cells(all, range(kGlance, kAll));
};

void expect_near(const VisualTokens& tokens, const VisualTokens& expected, double tolerance) {
  ASSERT_EQ(tokens.count, expected.count);
  const auto parts = parts_of(tokens);
  const auto wanted = parts_of(expected);
  ASSERT_EQ(parts.size(), wanted.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSERT_EQ(parts[i].size(), wanted[i].size());
    EXPECT_LE(test::relative_difference(parts[i], wanted[i], wanted[i].size()), tolerance)
        << "part " << i;
  }
}

// The values of some tokens, in the order given.
VisualTokens take_tokens(const VisualTokens& tokens, const std::vector<int>& which) {
  VisualTokens taken;
  taken.count = static_cast<int>(which.size());
  taken.width = tokens.width;
  const auto take = [&](const Buffer<float>& from) {
    const auto width = static_cast<size_t>(tokens.width);
    Buffer<float> to(which.size() * width);
    for (size_t i = 0; i < which.size(); ++i)
      std::copy_n(from.begin() + static_cast<size_t>(which[i]) * width, width,
                  to.begin() + i * width);
    return to;
  };
  taken.features = take(tokens.features);
  for (const Buffer<float>& part : tokens.deepstack) taken.deepstack.push_back(take(part));
  return taken;
}

TEST_F(TowerTest, AnErrorOfTheSourceIsHandedOn) {
  const VisionConfig config = test::config_of({});
  for (const char* missing :
       {"patch_embed.proj.weight", "pos_embed.weight", "blocks.1.attn.qkv.bias",
        "blocks.0.norm2.weight", "merger.linear_fc2.weight", "deepstack_merger_list.0.norm.bias"}) {
    test::StoredTensors tensors = test::random_tensors(config, 1);
    ASSERT_EQ(tensors.erase(missing), 1u) << missing;
    const auto built = Tower::build(config, test::source_of(tensors, WeightFormat::kF32));
    ASSERT_FALSE(built) << missing;
    EXPECT_EQ(built.error().message, std::string("no tensor ") + missing);
  }
}

TEST_F(TowerTest, ItsBytesAreThoseOfItsTensors) {
  const VisionConfig config = tower.config();
  int64_t values = 0;
  for (const ExpectedTensor& tensor : vision_tensors(config)) values += tensor.shape.values();
  EXPECT_EQ(tower.bytes(), static_cast<size_t>(values) * sizeof(float));
}

TEST_F(TowerTest, ALevelEmbeddingTellsLevelsApartAndLeavesLevelZero) {
  VisionConfig config = test::config_of({.depth = 3, .taps = {0, 2}});
  test::StoredTensors tensors = test::random_tensors(config, 1);
  config.levels = 2;
  const auto width = static_cast<size_t>(config.hidden_size);
  test::StoredTensor table{{2, config.hidden_size}, std::vector<float>(2 * width)};
  for (size_t i = 0; i < width; ++i) table.values[width + i] = 0.1f * static_cast<float>(i % 7);
  tensors["level_embedding"] = table;
  const Tower with = test::tower_of(config, tensors);
  EXPECT_EQ(with.bytes(), tower.bytes() + 2 * width * sizeof(float));
  const auto run = [&](const Tower& which, const std::vector<Cell>& cells) {
    TowerMemory memory;
    return parts_of(*which.encode(threads, test::random_patches(cells, kCanvas), kCanvas, memory));
  };
  const auto fine = test::cover(kCanvas, 0);
  EXPECT_EQ(run(with, fine), run(tower, fine)) << "bit for bit";
  EXPECT_NE(run(with, test::cover(kCanvas, 1)), run(tower, test::cover(kCanvas, 1)));

  // The first bias is what the row of level 1 adds where every patch is of that level or beyond.
  for (size_t i = 0; i < width; ++i)
    tensors["patch_embed.proj.bias"].values[i] += table.values[width + i];
  tensors.erase("level_embedding");
  config.levels = 0;
  const Tower shifted = test::tower_of(config, tensors);
  for (const int level : {1, 2}) {
    const auto coarse = test::cover(kCanvas, level);
    const auto parts = run(with, coarse);
    const auto wanted = run(shifted, coarse);
    for (size_t i = 0; i < parts.size(); ++i)
      EXPECT_LE(test::relative_difference(parts[i], wanted[i], wanted[i].size()), kSumOrder);
  }

  table.values[3] = 0.5f;
  tensors["level_embedding"] = table;
  config.levels = 2;
  const auto refused = Tower::build(config, test::source_of(tensors, WeightFormat::kF32));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::kBadInput);
  EXPECT_NE(refused.error().message.find("value 3 of row 0 is 0.5"), std::string::npos)
      << refused.error().message;
}

TEST_F(TowerTest, AGlanceIsNotChangedByTheLookThatFollows) {
  TowerMemory memory;
  const VisualTokens tokens = encode(glance, memory);
  encode(look, memory);
  EXPECT_EQ(memory.patches(), all.count);
  TowerMemory fresh;
  EXPECT_EQ(parts_of(tokens), parts_of(encode(glance, fresh)));
  const size_t head_bytes = static_cast<size_t>(tower.config().head_dim) * sizeof(float);
  for (size_t block = 0; block < fresh.blocks.size(); ++block) {
    for (int head = 0; head < tower.config().num_heads; ++head) {
      const KeyValues& kept = memory.blocks[block];
      const KeyValues& alone = fresh.blocks[block];
      for (int64_t i = 0; i < glance.count; ++i) {
        EXPECT_EQ(std::memcmp(kept.key(head, i), alone.key(head, i), head_bytes), 0);
        EXPECT_EQ(std::memcmp(kept.value(head, i), alone.value(head, i), head_bytes), 0);
      }
    }
  }
}

TEST_F(TowerTest, ALookAttendsToTheGlance) {
  TowerMemory memory;
  encode(glance, memory);
  const auto after_glance = parts_of(encode(look, memory));
  const auto alone = parts_of(encode(look));
  for (size_t i = 0; i < alone.size(); ++i)
    EXPECT_GT(test::relative_difference(after_glance[i], alone[i], alone[i].size()), 0.01);
  // And to what the glance shows: another glance gives another look.
  const Patches other = test::random_patches(test::cover(kCanvas, 1), kCanvas, 99);
  TowerMemory other_memory;
  encode(other, other_memory);
  const auto after_other = parts_of(encode(look, other_memory));
  for (size_t i = 0; i < alone.size(); ++i)
    EXPECT_GT(test::relative_difference(after_glance[i], after_other[i], alone[i].size()), 0.01);
}

TEST_F(TowerTest, TwoLooksInTurnSeeWhatCameBefore) {
  TowerMemory memory;
  encode(glance, memory);
  encode(take_cells(look, {0, 1}), memory);
  const VisualTokens second = encode(take_cells(look, {2, 3, 4}), memory);
  // The same as a look at a memory that holds both, in whatever calls it was filled.
  TowerMemory other;
  encode(glance, other);
  encode(take_cells(look, {0, 1}), other);
  encode(take_cells(look, {4, 3}), other);
  other.truncate(memory.patches() - 3 * kPatchesPerCell);
  EXPECT_EQ(parts_of(second), parts_of(encode(take_cells(look, {2, 3, 4}), other)));
}

TEST_F(TowerTest, TruncatedMemoryEqualsFreshMemory) {
  TowerMemory memory;
  encode(glance, memory);
  encode(look, memory);
  memory.truncate(glance.count);
  EXPECT_EQ(memory.patches(), glance.count);
  const Patches other = test::random_patches({{0, 2, 2}, {0, 0, 1}}, kCanvas, 5);
  const VisualTokens reused = encode(other, memory);
  TowerMemory fresh;
  encode(glance, fresh);
  EXPECT_EQ(parts_of(reused), parts_of(encode(other, fresh)));
}

TEST_F(TowerTest, CellsInAnotherOrderGiveTheirTokensInThatOrder) {
  const std::vector<int> order = {12, 3, 7, 0, 11, 1, 5, 9, 2, 10, 4, 8, 6};
  expect_near(encode(take_cells(all, order)), take_tokens(encode(all), order), kSumOrder);
}

TEST_F(TowerTest, EveryPatchOfACellHasItsOwnPlaceInTheToken) {
  Patches swapped = take_cells(all, range(0, kAll));
  std::swap_ranges(swapped.f32.begin(), swapped.f32.begin() + kPatchValues,
                   swapped.f32.begin() + kPatchValues);
  std::swap(swapped.places[0], swapped.places[1]);
  const auto parts = parts_of(encode(swapped));
  const auto expected = parts_of(encode(all));
  const auto width = static_cast<size_t>(tower.config().out_hidden_size);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_GT(test::relative_difference(parts[i], expected[i], width), 0.01);
    EXPECT_LE(test::relative_difference(parts[i].data() + width, expected[i].data() + width,
                                        expected[i].size() - width),
              kSumOrder);
  }
}

// 4^l copies of a patch, each attended to, are one patch that counts 4^l times.
TEST_F(TowerTest, TheSizeBiasCountsAPatchAsOftenAsItHoldsPatchesOfLevel0) {
  const std::vector<Cell> cells = {{2, 0, 1}, {1, 1, 0}, {0, 0, 0}, {0, 2, 6}};
  const Patches once = test::random_patches(cells, kCanvas);
  std::vector<int> repeated(16, 0);
  repeated.insert(repeated.end(), 4, 1);
  repeated.insert(repeated.end(), {2, 3});
  const Patches often = take_cells(once, repeated);
  const VisualTokens biased = encode(once, {.size_bias = true});
  expect_near(biased, take_tokens(encode(often), {0, 16, 20, 21}), kSumOrder);
  const auto plain = parts_of(encode(once));
  EXPECT_GT(test::relative_difference(parts_of(biased)[0], plain[0], plain[0].size()), 0.001);
}

TEST_F(TowerTest, TheSizeBiasHoldsForPatchesInMemory) {
  const Patches coarse = test::random_patches({{2, 0, 0}, {1, 1, 2}}, kCanvas);
  std::vector<int> repeated(16, 0);
  repeated.insert(repeated.end(), 4, 1);
  const EncodeOptions biased{.size_bias = true};
  TowerMemory once;
  TowerMemory often;
  encode(coarse, once, biased);
  encode(take_cells(coarse, repeated), often);
  expect_near(encode(look, once, biased), encode(look, often), kSumOrder);
}

TEST_F(TowerTest, NothingIsKeptUnlessAsked) {
  TowerMemory memory;
  const VisualTokens tokens = encode(all, memory, {.keep = false});
  EXPECT_TRUE(memory.blocks.empty());
  EXPECT_EQ(memory.patches(), 0);
  EXPECT_EQ(memory.bytes(), 0u);
  EXPECT_EQ(parts_of(tokens), parts_of(encode(all)));
}

TEST_F(TowerTest, ALookThatIsNotKeptAttendsToTheGlanceAndLeavesIt) {
  TowerMemory memory;
  encode(glance, memory);
  const auto first = parts_of(encode(look, memory, {.keep = false}));
  EXPECT_EQ(memory.patches(), glance.count);
  EXPECT_EQ(memory.blocks.front().size(), glance.count);
  const auto second = parts_of(encode(look, memory));
  EXPECT_EQ(first, second);
  TowerMemory fresh;
  encode(glance, fresh);
  EXPECT_EQ(second, parts_of(encode(look, fresh)));
}

TEST_F(TowerTest, StopsBeforeAnyBlockAndLeavesTheMemoryAsItWas) {
  for (const bool keep : {true, false}) {
    for (int stop_at = 0; stop_at < tower.config().depth; ++stop_at) {
      TowerMemory memory;
      for (const Patches* patches : {&glance, &look}) {
        const int64_t before = memory.patches();
        int asked = 0;
        int blocks = 0;
        EncodeOptions options{.keep = keep};
        options.keep_going = [&] { return asked++ < stop_at; };
        options.on_block = [&](int, const float*) { ++blocks; };
        const VisualTokens tokens = encode(*patches, memory, options);
        EXPECT_EQ(tokens.count, 0);
        EXPECT_TRUE(tokens.features.empty() && tokens.deepstack.empty());
        EXPECT_EQ(asked, stop_at + 1);
        EXPECT_EQ(blocks, stop_at);
        EXPECT_EQ(memory.patches(), before);
        EXPECT_EQ(memory.blocks.empty(), before == 0);
        for (const KeyValues& kv : memory.blocks) EXPECT_EQ(kv.size(), before);
        encode(*patches, memory);
      }
      TowerMemory fresh;
      encode(glance, fresh);
      encode(look, fresh);
      EXPECT_EQ(parts_of(encode(look, memory)), parts_of(encode(look, fresh)));
    }
  }
}

// on_block() takes so long that the merger behind it asks.
TEST_F(TowerTest, StopsInsideABlockToo) {
  for (int last = 0; last < tower.config().depth; ++last) {
    TowerMemory memory;
    encode(glance, memory);
    bool going = true;
    int blocks = 0;
    EncodeOptions options;
    options.keep_going = [&] { return going; };
    options.on_block = [&](int block, const float*) {
      ++blocks;
      if (block != last) return;
      going = false;
      std::this_thread::sleep_for(StopLoops::kAskEvery);
    };
    const VisualTokens tokens = encode(look, memory, options);
    EXPECT_EQ(blocks, last + 1);
    EXPECT_EQ(tokens.count, 0);
    EXPECT_TRUE(tokens.features.empty() && tokens.deepstack.empty());
    EXPECT_EQ(memory.patches(), glance.count);
    for (const KeyValues& kv : memory.blocks) EXPECT_EQ(kv.size(), glance.count);
    TowerMemory fresh;
    encode(glance, fresh);
    EXPECT_EQ(parts_of(encode(look, memory)), parts_of(encode(look, fresh)));
  }
}

TEST_F(TowerTest, GoesOnWhileItMay) {
  EncodeOptions options;
  int asked = 0;
  options.keep_going = [&] { return ++asked > 0; };
  EXPECT_EQ(parts_of(encode(all, options)), parts_of(encode(all)));
  EXPECT_EQ(asked, tower.config().depth);
}

TEST_F(TowerTest, NoPatchesGiveNoTokensAndChangeNothing) {
  TowerMemory memory;
  const Patches none;
  EXPECT_EQ(encode(none, memory).count, 0);
  EXPECT_TRUE(memory.blocks.empty());
  encode(glance, memory);
  EXPECT_EQ(encode(none, memory).count, 0);
  EXPECT_EQ(memory.patches(), glance.count);
}

TEST_F(TowerTest, MemoryIsTakenByThePage) {
  TowerMemory memory;
  encode(glance, memory);
  const auto whole_pages = [](int64_t count) {
    return (count + kPageTokens - 1) / kPageTokens * kPageTokens;
  };
  for (const KeyValues& kv : memory.blocks) EXPECT_EQ(kv.capacity(), whole_pages(glance.count));
  encode(look, memory);
  for (const KeyValues& kv : memory.blocks) EXPECT_EQ(kv.capacity(), whole_pages(all.count));
  const int64_t values = int64_t{2} * whole_pages(all.count) * tower.config().hidden_size;
  EXPECT_EQ(memory.bytes(), static_cast<size_t>(tower.config().depth * values) * sizeof(float) +
                                static_cast<size_t>(all.count) * sizeof(int));
}

}  // namespace
}  // namespace fovea
