// SPDX-License-Identifier: Apache-2.0
// cards: seed -> CardScene -> questions. CardField is a test bed for looking: cards whose shape and
// colour show in a glance, and whose payload, a few pixels high, is legible at level 0 only. The
// same seed and options give the same pixels and words on every machine (docs/cards.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

inline constexpr int kCardShapes = 6;
inline constexpr int kCardColours = 8;
inline constexpr int kMaxCards = kCardShapes * kCardColours;

// Letters and digits without those that look alike.
inline constexpr std::string_view kCodeAlphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

enum class PayloadKind : uint8_t { kCode, kTicks, kGap, kArrow };

enum class Family : uint8_t { kRead, kFind, kCount, kExist, kSame, kGap, kFollow, kTicks };
inline constexpr std::array<Family, 8> kAllFamilies = {
    Family::kRead, Family::kFind, Family::kCount,  Family::kExist,
    Family::kSame, Family::kGap,  Family::kFollow, Family::kTicks};

std::string_view shape_name(int shape);    // "circle", ...; 0..5
std::string_view colour_name(int colour);  // "red", ...; 0..7
std::string_view direction_name(int direction);
std::string_view family_name(Family family);  // "read", ...
std::optional<Family> family_of(std::string_view name);

// Pixels x0 <= x < x1, y0 <= y < y1 of the scene.
struct CardBox {
  int x0 = 0;
  int y0 = 0;
  int x1 = 0;
  int y1 = 0;

  int width_px() const { return x1 - x0; }
  int height_px() const { return y1 - y0; }
  friend bool operator==(const CardBox&, const CardBox&) = default;
};

struct CardOptions {
  Size size = {1024, 1024};  // 512..2048 px a side
  int cards_min = 24;        // 8..48
  int cards_max = 24;
  int payload_min_px = 10;  // height, 8..24 px
  int payload_max_px = 13;
  bool blank_payloads = false;    // black where payloads would be: nothing is left to read
  std::span<const Image> photos;  // backgrounds are crops of these; none: noise of several scales
};

// What is wrong with the options, if anything; the other functions take only good ones.
Status check_card_options(const CardOptions& options);

struct Card {
  int shape = 0;
  int colour = 0;
  PayloadKind kind = PayloadKind::kCode;
  CardBox card_box;         // a square
  CardBox payload_box;      // around the ink
  int payload_px = 0;       // height of a code, a tick or a ring
  int code[2] = {-1, -1};   // places in kCodeAlphabet; of code cards
  int number = -1;          // of ticks, 1..6
  int direction = -1;       // of a gap or an arrow: 0 up, 1 right, 2 down, 3 left
  int target = -1;          // the card an arrow points at, always a code card
  uint32_t style_bits = 0;  // what varies and means nothing: shade, place and pitch of the ink
};

struct CardScene {
  Image image;
  std::vector<Card> cards;
};

CardScene make_scene(uint64_t seed, const CardOptions& options = {});

// The same into memory of the caller's, [height][width][3] bytes; the scene's image stays empty.
CardScene make_scene_into(uint64_t seed, const CardOptions& options, std::span<uint8_t> rgb);

struct CardQuestion {
  Family family = Family::kRead;
  std::string text;
  std::string answer;
  std::vector<int> evidence;  // the cards whose payload must be read, in the order of reading
  int payload_px = 0;         // the smallest of the evidence; 0 where the cues suffice
};

// `count` questions, their families in turn.
std::vector<CardQuestion> make_questions(const CardScene& scene, uint64_t seed,
                                         std::span<const Family> families, int count);

std::string card_name(const Card& card);  // "red circle"
std::string card_code(const Card& card);  // "K7"

}  // namespace fovea
