// SPDX-License-Identifier: Apache-2.0
#include "cards/shapes.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace fovea {
namespace {

enum Shape { kCircle, kSquare, kTriangle, kDiamond, kCross, kStar };

// Outlines in 1024ths of the side. All are wide enough around their body for a payload whose height
// is a third of the side.
constexpr std::array<MaskPoint, 4> kSquareOutline = {{{72, 72}, {952, 72}, {952, 952}, {72, 952}}};
constexpr std::array<MaskPoint, 4> kTriangleOutline = {
    {{450, 40}, {574, 40}, {1010, 960}, {14, 960}}};
constexpr std::array<MaskPoint, 4> kDiamondOutline = {
    {{512, 0}, {1024, 512}, {512, 1024}, {0, 512}}};
constexpr std::array<MaskPoint, 12> kCrossOutline = {{{307, 0},
                                                      {717, 0},
                                                      {717, 307},
                                                      {1024, 307},
                                                      {1024, 717},
                                                      {717, 717},
                                                      {717, 1024},
                                                      {307, 1024},
                                                      {307, 717},
                                                      {0, 717},
                                                      {0, 307},
                                                      {307, 307}}};
// Five points at 0.525 of the side, the notches between them at 0.30.
constexpr std::array<MaskPoint, 10> kStarOutline = {{{512, 25},
                                                     {692, 315},
                                                     {1023, 397},
                                                     {804, 658},
                                                     {828, 998},
                                                     {512, 870},
                                                     {196, 998},
                                                     {220, 658},
                                                     {1, 397},
                                                     {332, 315}}};

std::span<const MaskPoint> outline_of(int shape) {
  switch (shape) {
    case kSquare:
      return kSquareOutline;
    case kTriangle:
      return kTriangleOutline;
    case kDiamond:
      return kDiamondOutline;
    case kCross:
      return kCrossOutline;
    default:
      FOVEA_CHECK(shape == kStar);
      return kStarOutline;
  }
}

// Bright enough that near-black ink shows on all of them.
constexpr CardInk kColours[kCardColours] = {
    {{232, 42, 42}},   // red
    {{255, 140, 0}},   // orange
    {{250, 228, 40}},  // yellow
    {{36, 186, 64}},   // green
    {{20, 214, 226}},  // cyan
    {{70, 110, 250}},  // blue
    {{168, 66, 226}},  // purple
    {{246, 246, 246}}  // white
};

}  // namespace

MaskPoint body_of(int shape) {
  if (shape == kTriangle) return {512, 686};
  if (shape == kStar) return {512, 560};
  return {512, 512};
}

CardMask shape_mask(int shape, int side_px) {
  CardMask mask(side_px, side_px);
  const int side = side_px * kSixteenths;
  if (shape == kCircle) {
    mask.add([&](int y) {
      MaskSpans spans;
      add_disc(spans, {side / 2, side / 2}, side / 2, y);
      return spans;
    });
    return mask;
  }
  std::array<MaskPoint, 12> points;
  const std::span<const MaskPoint> outline = outline_of(shape);
  for (size_t i = 0; i < outline.size(); ++i)
    points[i] = {outline[i].x * side / 1024, outline[i].y * side / 1024};
  mask.add_polygon({points.data(), outline.size()});
  return mask;
}

CardInk colour_ink(int colour, uint32_t style_bits) {
  CardInk ink = kColours[colour];
  for (uint8_t& channel : ink.rgb) {
    const int shade = (static_cast<int>(style_bits % 16) - 8) / 2;
    channel = static_cast<uint8_t>(std::clamp(channel + shade, 0, 255));
    style_bits /= 16;
  }
  return ink;
}

CardMask blank_mask(int shape, int side_px) {
  const int side = side_px * kSixteenths;
  CardMask mask(side_px, side_px);
  if (shape == 0) {
    mask.add_rectangle(0, side * 36 / 100, side, side * 64 / 100);
  } else if (shape == 1) {
    mask.add_rectangle(side * 36 / 100, 0, side * 64 / 100, side);
  } else {
    mask.add([&](int y) {
      const MaskPoint middle = {side / 2, side / 2};
      MaskSpans spans;
      add_disc(spans, middle, side / 2, y);
      if (shape == 2) cut_disc(spans, middle, side * 30 / 100, y);
      if (shape == 3) cut_disc(spans, {side * 72 / 100, side * 44 / 100}, side * 42 / 100, y);
      return spans;
    });
  }
  return mask;
}

CardInk blank_ink(int colour) {
  return colour == 0 ? CardInk{{255, 0, 220}} : CardInk{{170, 255, 0}};  // magenta, lime
}

}  // namespace fovea
