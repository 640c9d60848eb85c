// SPDX-License-Identifier: Apache-2.0
#include "cards/payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>
#include <string>

#include "cards/glyphs.h"
#include "cards/shapes.h"

namespace fovea {
namespace {

double area_of(const CardMask& mask) {
  double sum = 0;
  for (int y = 0; y < mask.height_px(); ++y)
    for (int x = 0; x < mask.width_px(); ++x) sum += mask.row(y)[x];
  return sum / CardMask::kFull;
}

// A card alone on a canvas of its own, all over `ground`, with its payload painted.
Image painted(const Card& card, uint8_t ground) {
  Image image({card.card_box.x1, card.card_box.y1});
  std::fill(image.rgb.begin(), image.rgb.end(), ground);
  paint_payload({image.size, image.rgb.data()}, card);
  return image;
}

std::string bytes_of(const Image& image) { return {image.rgb.begin(), image.rgb.end()}; }

// Cards of every shape, kind and answer.
std::vector<Card> every_card(int side_px, int payload_px, uint32_t style_bits) {
  std::vector<Card> cards;
  for (int shape = 0; shape < kCardShapes; ++shape) {
    Card card;
    card.shape = shape;
    card.card_box = {0, 0, side_px, side_px};
    card.payload_px = payload_px;
    card.style_bits = style_bits;
    const auto add = [&](Card added) {
      added.payload_box = payload_box_of(added);
      cards.push_back(added);
    };
    for (int letter = 0; letter < 32; ++letter) {
      card.code[0] = card.code[1] = letter;
      add(card);
    }
    card.kind = PayloadKind::kTicks;
    for (card.number = 1; card.number <= 6; ++card.number) add(card);
    for (const PayloadKind kind : {PayloadKind::kGap, PayloadKind::kArrow}) {
      card.kind = kind;
      for (card.direction = 0; card.direction < 4; ++card.direction) add(card);
    }
  }
  return cards;
}

TEST(CardMask, AreasAreExactToAHundredth) {
  CardMask rectangle(20, 10);
  rectangle.add_rectangle(16 + 8, 32, 16 * 5 + 4, 16 * 6);
  EXPECT_DOUBLE_EQ(area_of(rectangle), 3.75 * 4);
  const int side_px = 56;
  const double square = side_px * side_px;
  EXPECT_NEAR(area_of(shape_mask(0, side_px)) / square, 3.14159265 / 4, 0.01);
  EXPECT_NEAR(area_of(shape_mask(1, side_px)) / square, 0.859 * 0.859, 0.01);
  EXPECT_NEAR(area_of(shape_mask(3, side_px)) / square, 0.5, 0.01);
  EXPECT_NEAR(area_of(shape_mask(4, side_px)) / square, 2 * 0.4 - 0.16, 0.01);
}

TEST(CardMask, SpansAreCut) {
  MaskSpans spans;
  spans.add(0, 100);
  spans.cut(40, 60);
  spans.cut(-5, 10);
  spans.cut(200, 300);
  int length = 0;
  for (const MaskSpans::Span& span : spans) length += span.x1 - span.x0;
  EXPECT_EQ(length, 70);
}

TEST(Glyphs, AnyTwoDifferInFivePlacesOrMore) {
  for (size_t a = 0; a < kGlyphs.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      int different = 0;
      for (size_t row = 0; row < kGlyphRows; ++row)
        different += std::popcount(static_cast<uint32_t>(kGlyphs[a][row] ^ kGlyphs[b][row]));
      EXPECT_GE(different, 5) << kCodeAlphabet[a] << kCodeAlphabet[b];
    }
  }
}

TEST(Payload, InkFillsItsBoxAndNothingElse) {
  for (const auto& [side_px, payload_px] : {std::pair{56, 10}, {56, 13}, {72, 24}, {36, 8}}) {
    for (const Card& card : every_card(side_px, payload_px, 0x5a5a5a5a)) {
      const Image image = painted(card, 255);
      CardBox ink = {1000, 1000, 0, 0};
      for (int y = 0; y < image.size.height_px; ++y) {
        for (int x = 0; x < image.size.width_px; ++x) {
          if (image.row(y)[x * 3] == 255) continue;
          ink = {std::min(ink.x0, x), std::min(ink.y0, y), std::max(ink.x1, x + 1),
                 std::max(ink.y1, y + 1)};
        }
      }
      EXPECT_EQ(ink, card.payload_box) << "shape " << card.shape << " kind "
                                       << static_cast<int>(card.kind) << " of " << side_px << " px";
    }
  }
}

// Ink beside its card could not be told from the background. It may reach a pixel of the outline
// that the card covers by half or more.
TEST(Payload, InkLiesOnTheShape) {
  for (const uint32_t style_bits : {0u, 0xffffffffu, 0x12345678u, 0x0f0f000fu}) {
    for (const auto& [side_px, payload_px] : {std::pair{56, 13}, {36, 12}, {96, 24}, {72, 24}}) {
      for (const Card& card : every_card(side_px, payload_px, style_bits)) {
        const CardMask shape = shape_mask(card.shape, side_px);
        const Image image = painted(card, 255);
        for (int y = 0; y < side_px; ++y)
          for (int x = 0; x < side_px; ++x)
            ASSERT_TRUE(image.row(y)[x * 3] == 255 || shape.row(y)[x] * 2 >= CardMask::kFull)
                << shape_name(card.shape) << " kind " << static_cast<int>(card.kind) << " number "
                << card.number << " of " << side_px << " px at " << x << ", " << y;
      }
    }
  }
}

// The picture of a payload tells all that is asked of it.
TEST(Payload, DifferentAnswersLookDifferent) {
  for (const int payload_px : {8, 10, 13, 24}) {
    std::set<std::string> pictures;
    size_t cards = 0;
    for (const Card& card : every_card(96, payload_px, 7)) {
      if (card.shape != 0) continue;
      ++cards;
      pictures.insert(bytes_of(painted(card, 255)));
    }
    EXPECT_EQ(pictures.size(), cards);
  }
}

TEST(Payload, ABlankTellsNothing) {
  for (const auto& [side_px, payload_px] : {std::pair{56, 10}, {56, 13}, {72, 24}}) {
    for (int shape = 0; shape < kCardShapes; ++shape) {
      std::set<std::string> pictures;
      for (const Card& card : every_card(side_px, payload_px, 0x13579bdf)) {
        if (card.shape != shape) continue;
        Image image = painted(card, 255);
        paint_blank_payload({image.size, image.rgb.data()}, card, shape_mask(shape, side_px));
        pictures.insert(bytes_of(image));
      }
      // One picture for all kinds and answers: the blank hides every trace of the ink below it.
      EXPECT_EQ(pictures.size(), 1u) << shape_name(shape) << " of " << side_px << " px";
    }
  }
}

TEST(Shapes, ColoursAreFarApartAndBrightEnoughForInk) {
  for (int a = 0; a < kCardColours; ++a) {
    const CardInk one = colour_ink(a, 0);
    // Luminance, of which the ink has about 15.
    EXPECT_GT((21 * one.rgb[0] + 72 * one.rgb[1] + 7 * one.rgb[2]) / 100, 70) << colour_name(a);
    for (int b = 0; b < a; ++b) {
      const CardInk other = colour_ink(b, 0);
      int apart = 0;
      for (int c = 0; c < 3; ++c) apart += std::abs(one.rgb[c] - other.rgb[c]);
      EXPECT_GT(apart, 100) << colour_name(a) << ", " << colour_name(b);
    }
  }
}

}  // namespace
}  // namespace fovea
