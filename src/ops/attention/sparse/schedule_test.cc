// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/schedule.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

AttentionSchedule parsed(std::string_view text, int layers = 24,
                         AttentionPlace place = AttentionPlace::kTower) {
  auto schedule = parse_attention(text, place, layers);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return schedule ? *schedule : AttentionSchedule();
}

void expect_refused(std::string_view text, const std::string& message, int layers = 24,
                    AttentionPlace place = AttentionPlace::kTower) {
  const auto schedule = parse_attention(text, place, layers);
  ASSERT_FALSE(schedule) << text;
  EXPECT_EQ(schedule.error().kind, Error::Kind::kBadInput);
  EXPECT_NE(schedule.error().message.find(message), std::string::npos) << schedule.error().message;
}

TEST(AttentionSchedule, OneKindIsForAllLayers) {
  for (const AttentionPlace place : {AttentionPlace::kTower, AttentionPlace::kText})
    for (const AttentionKindRow& row : attention_kinds(place)) {
      const AttentionSchedule schedule = parsed(row.name, 24, place);
      for (const int layer : {0, 11, 23})
        EXPECT_EQ(schedule.of(layer, 24), (SparseSettings{.kind = row.kind}));
      EXPECT_TRUE(schedule.has(row.kind));
    }
}

TEST(AttentionSchedule, SeveralKindsShareTheLayersEvenlyAndInOrder) {
  const AttentionSchedule thirds = parsed("dense,strided,hierarchical:0.25");
  for (int layer = 0; layer < 24; ++layer) {
    const AttentionKind wanted = layer < 8    ? AttentionKind::kDense
                                 : layer < 16 ? AttentionKind::kStrided
                                              : AttentionKind::kHierarchical;
    EXPECT_EQ(thirds.of(layer, 24).kind, wanted) << layer;
    EXPECT_EQ(thirds.of(layer, 24).share, layer < 16 ? 0 : 0.25);
  }
  // Where they do not go in evenly, the first have one more.
  const AttentionSchedule halves = parsed("local3,dense", 5);
  EXPECT_EQ(halves.of(2, 5).kind, AttentionKind::kLocal3);
  EXPECT_EQ(halves.of(3, 5).kind, AttentionKind::kDense);
  EXPECT_TRUE(halves.has(AttentionKind::kLocal3) && halves.has(AttentionKind::kDense));
  EXPECT_FALSE(halves.has(AttentionKind::kStrided) || halves.chooses_blocks());
}

TEST(AttentionSchedule, WhatComputesTheSameIsTheSame) {
  for (const char* dense : {"", "dense", "dense,dense"}) {
    EXPECT_TRUE(parsed(dense).is_dense()) << dense;
    EXPECT_EQ(parsed(dense), AttentionSchedule());
    EXPECT_EQ(parsed(dense).text(), "");
  }
  EXPECT_EQ(parsed("local3,local3"), parsed("local3"));
  EXPECT_EQ(parsed("hierarchical:0.50"), parsed("hierarchical:5e-1"));
  EXPECT_NE(parsed("hierarchical:0.5").text(), parsed("hierarchical").text());
  EXPECT_NE(parsed("dense,local3"), parsed("local3,dense"));
  for (const char* text : {"local3", "dense,hierarchical:0.1", "strided,dense,top-blocks:1",
                           "level-sum:0.1:0.5/-0.25/2,dense"})
    EXPECT_EQ(parsed(text).text(), text) << "what it says is what was read";
}

TEST(AttentionSchedule, LevelSumHasWeights) {
  const AttentionSchedule schedule = parsed("level-sum:0.1:0.5/-0.25/2");
  EXPECT_EQ(schedule.of(3, 24).share, 0.1);
  EXPECT_EQ(schedule.of(3, 24).level_weights, (LevelWeights{0.5f, -0.25f, 2}));
  EXPECT_EQ(parsed("level-sum:0.1").of(3, 24).level_weights, kEqualLevels);
  EXPECT_NE(schedule, parsed("level-sum:0.1"));
  EXPECT_NE(schedule.text(), parsed("level-sum:0.1").text());
  for (const char* weights : {"", "1", "1/2", "1/2/3/4", "1/2/x", "1/2/nan", "1/2/inf", "1//2"})
    expect_refused("level-sum:0.1:" + std::string(weights), "fine/medium/coarse");
  expect_refused("hierarchical:0.1:1/2/3", "only level-sum takes weights");
  expect_refused("level-sum:1/2/3", "above 0 and up to 1");
}

TEST(AttentionSchedule, WhatIsWrongIsNamedWithWhatThereIs) {
  expect_refused("nosuch", "there is no attention \"nosuch\": choose one of dense, local3");
  expect_refused("dense,", "there is no attention \"\"");
  expect_refused(",", "there is no attention \"\"");
  expect_refused("Dense", "\"Dense\"");
  expect_refused(" dense", "\" dense\"");
  expect_refused("local3", "attention \"local3\" is for the tower alone: choose one of dense", 24,
                 AttentionPlace::kText);
  for (const char* share : {"0", "-0.1", "1.01", "nan", "inf", "", "0.1x", "1e-999"})
    expect_refused("hierarchical:" + std::string(share), "above 0 and up to 1");
  expect_refused("local3:0.5",
                 "only top-blocks or hierarchical or level-sum or shared-blocks takes a share");
  expect_refused("dense,local3,dense", "more kinds than the tower has layers; give at most 2", 2);
  expect_refused(std::string(100'000, ','), "\"\"");
}

}  // namespace
}  // namespace fovea
