// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cards/cards.h"
#include "cards/glyphs.h"
#include "cards/layout.h"
#include "cards/payload.h"
#include "cards/shapes.h"

namespace fovea {
namespace {

constexpr int kSeeds = 300;

uint64_t hash_of(std::span<const uint8_t> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

std::vector<CardOptions> every_kind_of_options() {
  return {{},
          {.size = {512, 512}, .cards_min = 8, .cards_max = 8},
          {.size = {512, 2048}, .cards_min = 8, .cards_max = 20},
          {.size = {1023, 777}, .cards_min = 16, .cards_max = 30},
          {.size = {2048, 2048}, .cards_min = 48, .cards_max = 48},
          {.cards_min = 8, .cards_max = 48, .payload_min_px = 8, .payload_max_px = 24}};
}

CardLayout layout_of(int seed, const CardOptions& options) {
  return lay_out(CardRandom(static_cast<uint64_t>(seed), CardStream::kLayout), options);
}

std::vector<const Card*> of_kind(const CardLayout& layout, PayloadKind kind) {
  std::vector<const Card*> cards;
  for (const Card& card : layout.cards)
    if (card.kind == kind) cards.push_back(&card);
  return cards;
}

// Any change of a scene changes what a model was trained on and measured with.
TEST(CardScene, ASeedGivesTheSamePixelsWithEveryCompiler) {
  const uint64_t expected[] = {4143361792822056039u, 17456997509031380818u, 10630928704518664833u,
                               5501099837216689799u, 4835286341157158548u,  18256450396453976283u};
  const std::vector<CardOptions> options = every_kind_of_options();
  for (size_t i = 0; i < options.size(); ++i)
    EXPECT_EQ(hash_of(make_scene(i, options[i]).image.rgb), expected[i]) << i;
}

TEST(CardScene, EverySceneHoldsWhatIsPromised) {
  for (const CardOptions& options : every_kind_of_options()) {
    ASSERT_TRUE(check_card_options(options));
    for (int seed = 0; seed < kSeeds; ++seed) {
      const CardLayout layout = layout_of(seed, options);
      const int count = static_cast<int>(layout.cards.size());
      ASSERT_TRUE(count >= options.cards_min && count <= options.cards_max);
      EXPECT_GE(of_kind(layout, PayloadKind::kCode).size(), 5u) << seed;
      EXPECT_GE(of_kind(layout, PayloadKind::kTicks).size(), 1u) << seed;
      EXPECT_GE(of_kind(layout, PayloadKind::kGap).size(), 1u) << seed;
      EXPECT_GE(of_kind(layout, PayloadKind::kArrow).size(), 1u) << seed;
      std::set<int> cues;
      for (const Card& card : layout.cards) {
        cues.insert(card.shape * kCardColours + card.colour);
        EXPECT_GE(card.payload_px, options.payload_min_px);
        EXPECT_LE(card.payload_px, options.payload_max_px);
        EXPECT_GE(card.card_box.width_px(), 3 * card.payload_px);
      }
      EXPECT_EQ(cues.size(), layout.cards.size()) << "a cue must name one card; seed " << seed;
    }
  }
}

TEST(CardScene, CodesAreUniqueButForThePlantedPairs) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    const CardLayout layout = layout_of(seed, {});
    std::map<std::string, int> holders;
    int near = 0;
    for (const Card* a : of_kind(layout, PayloadKind::kCode)) {
      ++holders[card_code(*a)];
      for (const Card* b : of_kind(layout, PayloadKind::kCode))
        near += a < b && (a->code[0] == b->code[0]) != (a->code[1] == b->code[1]) ? 1 : 0;
    }
    int equal = 0;
    for (const auto& [code, count] : holders) {
      EXPECT_LE(count, 2) << code;
      equal += count == 2 ? 1 : 0;
    }
    EXPECT_TRUE(equal == 1 || equal == 2) << seed;
    EXPECT_GE(near, 1) << seed;
  }
}

// Nothing lies on anything else, or at the edge.
TEST(CardScene, CardsAndDistractorsLieApart) {
  for (const CardOptions& options : every_kind_of_options()) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      const CardLayout layout = layout_of(seed, options);
      std::vector<CardBox> boxes;
      for (const Card& card : layout.cards) boxes.push_back(card.card_box);
      int noisy = 0;
      for (const Distractor& distractor : layout.distractors) {
        boxes.push_back(distractor.box);
        noisy += distractor.noise ? 1 : 0;
      }
      const int vivid = static_cast<int>(layout.distractors.size()) - noisy;
      EXPECT_TRUE(noisy >= 1 && noisy <= 4 && vivid >= 1 && vivid <= 4) << noisy << ", " << vivid;
      for (const CardBox& a : boxes) {
        EXPECT_TRUE(a.x0 >= 8 && a.y0 >= 8 && a.x1 <= options.size.width_px - 8 &&
                    a.y1 <= options.size.height_px - 8);
        for (const CardBox& b : boxes)
          EXPECT_TRUE(&a == &b || a.x1 + 16 <= b.x0 || b.x1 + 16 <= a.x0 || a.y1 + 16 <= b.y0 ||
                      b.y1 + 16 <= a.y0)
              << seed;
      }
    }
  }
}

TEST(CardScene, AnArrowsLineMeetsACodeCardFirst) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    const CardLayout layout = layout_of(seed, {});
    for (const Card* arrow : of_kind(layout, PayloadKind::kArrow)) {
      const int right = arrow->direction == 1 ? 1 : arrow->direction == 3 ? -1 : 0;
      const int down = arrow->direction == 2 ? 1 : arrow->direction == 0 ? -1 : 0;
      int x = (arrow->payload_box.x0 + arrow->payload_box.x1) / 2;
      int y = (arrow->payload_box.y0 + arrow->payload_box.y1) / 2;
      const Card* met = nullptr;
      while (met == nullptr && x >= 0 && y >= 0 && x < 1024 && y < 1024) {
        x += right;
        y += down;
        for (const Card& card : layout.cards) {
          const CardBox& box = card.card_box;
          if (&card != arrow && x >= box.x0 && x < box.x1 && y >= box.y0 && y < box.y1) met = &card;
        }
      }
      ASSERT_NE(met, nullptr) << seed;
      EXPECT_EQ(met, &layout.cards[static_cast<size_t>(arrow->target)]) << seed;
      EXPECT_EQ(met->kind, PayloadKind::kCode) << seed;
    }
  }
}

TEST(CardScene, ThePayloadOptionsDoNotMoveTheCards) {
  const CardScene seen = make_scene(3);
  const CardScene blank = make_scene(3, {.blank_payloads = true});
  ASSERT_EQ(seen.cards.size(), blank.cards.size());
  for (size_t i = 0; i < seen.cards.size(); ++i)
    EXPECT_EQ(seen.cards[i].payload_box, blank.cards[i].payload_box);
  EXPECT_NE(seen.image.rgb, blank.image.rgb);
}

TEST(CardScene, PhotographsBecomeBackgrounds) {
  std::vector<Image> photos = {Image({1, 1}), Image({3000, 40})};
  std::fill(photos[0].rgb.begin(), photos[0].rgb.end(), uint8_t{0});
  std::fill(photos[1].rgb.begin(), photos[1].rgb.end(), uint8_t{255});
  std::set<int> corners;
  for (uint64_t seed = 0; seed < 8; ++seed)
    corners.insert(make_scene(seed, {.size = {512, 512}, .cards_max = 24, .photos = photos})
                       .image.rgb.front());
  EXPECT_EQ(corners, (std::set<int>{24, 24 + 255 * 5 / 8}));  // faded, as background.h says
}

TEST(CardOptions, WhatCannotBeIsRefused) {
  const std::vector<Image> nothing(1);
  const CardOptions wrong[] = {{.size = {511, 1024}},
                               {.size = {1024, 2049}},
                               {.cards_min = 7},
                               {.cards_max = 49},
                               {.cards_min = 25},
                               {.payload_min_px = 7},
                               {.payload_max_px = 25},
                               {.payload_min_px = 14},
                               {.size = {512, 512}, .cards_max = 48, .payload_max_px = 24},
                               {.photos = nothing}};
  for (const CardOptions& options : wrong) EXPECT_FALSE(check_card_options(options));
  EXPECT_TRUE(check_card_options({}));
}

}  // namespace
}  // namespace fovea
