// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "cards/cards.h"
#include "cards/layout.h"

namespace fovea {
namespace {

constexpr std::string_view kShapes[kCardShapes] = {"circle",  "square", "triangle",
                                                   "diamond", "cross",  "star"};
constexpr std::string_view kColours[kCardColours] = {"red",  "orange", "yellow", "green",
                                                     "cyan", "blue",   "purple", "white"};
constexpr std::string_view kDirections[4] = {"up", "right", "down", "left"};
constexpr std::string_view kFamilies[kAllFamilies.size()] = {"read", "find", "count",  "exist",
                                                             "same", "gap",  "follow", "ticks"};

// "8..48" where the two ends are wrong; nothing where they are right.
std::string range_error(const char* what, int least, int most, int lowest, int highest) {
  if (least >= lowest && most <= highest && least <= most) return "";
  const std::string given =
      least == most ? fmt::format("{}", least) : fmt::format("{}..{}", least, most);
  return fmt::format("{} {}: give a number or a range within {}..{}", what, given, lowest, highest);
}

}  // namespace

std::string_view shape_name(int shape) {
  FOVEA_CHECK(shape >= 0 && shape < kCardShapes);
  return kShapes[shape];
}

std::string_view colour_name(int colour) {
  FOVEA_CHECK(colour >= 0 && colour < kCardColours);
  return kColours[colour];
}

std::string_view direction_name(int direction) {
  FOVEA_CHECK(direction >= 0 && direction < 4);
  return kDirections[direction];
}

std::string_view family_name(Family family) { return kFamilies[static_cast<size_t>(family)]; }

std::optional<Family> family_of(std::string_view name) {
  for (const Family family : kAllFamilies)
    if (family_name(family) == name) return family;
  return std::nullopt;
}

std::string card_name(const Card& card) {
  return fmt::format("{} {}", colour_name(card.colour), shape_name(card.shape));
}

std::string card_code(const Card& card) {
  FOVEA_CHECK(card.kind == PayloadKind::kCode);
  return {kCodeAlphabet[static_cast<size_t>(card.code[0])],
          kCodeAlphabet[static_cast<size_t>(card.code[1])]};
}

Status check_card_options(const CardOptions& options) {
  const auto [width_px, height_px] = options.size;
  for (const int side_px : {width_px, height_px})
    if (side_px < 512 || side_px > 2048)
      return bad_input(fmt::format("scene of {}x{} px: sides of 512..2048 px are possible",
                                   width_px, height_px));
  std::string wrong = range_error("cards", options.cards_min, options.cards_max, 8, kMaxCards);
  if (wrong.empty())
    wrong = range_error("payload height", options.payload_min_px, options.payload_max_px, 8, 24);
  if (!wrong.empty()) return bad_input(wrong);
  if (card_side_px(options, options.cards_max) < 3 * options.payload_max_px)
    return bad_input(fmt::format(
        "{} cards with payloads of {} px do not fit into {}x{} px; try fewer, smaller payloads, or "
        "a larger scene",
        options.cards_max, options.payload_max_px, width_px, height_px));
  for (const Image& photo : options.photos)
    if (photo.size.pixels() == 0) return bad_input("a background photograph has no pixels");
  return Done{};
}

}  // namespace fovea
