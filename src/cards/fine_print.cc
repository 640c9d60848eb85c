// SPDX-License-Identifier: Apache-2.0
#include "cards/fine_print.h"

#include <algorithm>
#include <cstdlib>

#include "cards/glyphs.h"

namespace fovea {
namespace {

constexpr int kStep = 40;        // grey levels for each pixel of a block that differs
constexpr int kTickPitchPx = 3;  // two lines never share a block
constexpr int kLabelMarginPx = 3;

int arrow_wing_px(int height_px) { return (height_px - 1) / 3; }

Size print_size(const Card& card) {
  const int height_px = card.payload_px;
  switch (card.kind) {
    case PayloadKind::kCode:
      return {2 * glyph_width_px(height_px) + glyph_gap_px(height_px), height_px};
    case PayloadKind::kTicks:
      return {(card.number - 1) * kTickPitchPx + 1, height_px};
    case PayloadKind::kGap:
      return {height_px, height_px};
    case PayloadKind::kArrow:
      break;
  }
  const Size lying = {height_px, 2 * arrow_wing_px(height_px) + 1};
  return card.direction % 2 == 1 ? lying : Size{lying.height_px, lying.width_px};
}

int rounded(int numerator, int denominator) {
  return (2 * numerator + denominator) / (2 * denominator);
}

}  // namespace

FinePrint::FinePrint(const Card& card)
    : size_(print_size(card)), ink_(static_cast<size_t>(size_.pixels())) {
  switch (card.kind) {
    case PayloadKind::kCode: {
      const int width_px = glyph_width_px(card.payload_px);
      glyph(card.code[0], 0, width_px);
      glyph(card.code[1], width_px + glyph_gap_px(card.payload_px), width_px);
      break;
    }
    case PayloadKind::kTicks:
      for (int i = 0; i < card.number; ++i)
        line({i * kTickPitchPx, 0}, {i * kTickPitchPx, size_.height_px - 1});
      break;
    case PayloadKind::kGap:
      ring(card.direction);
      break;
    case PayloadKind::kArrow:
      arrow(card.direction);
      break;
  }
}

void FinePrint::dot(int x, int y) {
  ink_[static_cast<size_t>(y) * static_cast<size_t>(size_.width_px) + static_cast<size_t>(x)] = 1;
}

void FinePrint::line(MaskPoint from, MaskPoint to) {
  const int steps = std::max({std::abs(to.x - from.x), std::abs(to.y - from.y), 1});
  for (int i = 0; i <= steps; ++i)
    dot(rounded(from.x * (steps - i) + to.x * i, steps),
        rounded(from.y * (steps - i) + to.y * i, steps));
}

// Lines between the middles of neighbouring squares of the 5x7 glyph; squares that touch at a
// corner are joined where nothing else joins them.
void FinePrint::glyph(int index, int left_px, int width_px) {
  const Glyph& shape = kGlyphs[static_cast<size_t>(index)];
  const auto on = [&](int row, int column) {
    return row < kGlyphRows && column >= 0 && column < kGlyphColumns &&
           glyph_ink(shape, row, column);
  };
  const auto place = [&](int row, int column) {
    return MaskPoint{left_px + rounded(column * (width_px - 1), kGlyphColumns - 1),
                     rounded(row * (size_.height_px - 1), kGlyphRows - 1)};
  };
  for (int row = 0; row < kGlyphRows; ++row) {
    for (int column = 0; column < kGlyphColumns; ++column) {
      if (!on(row, column)) continue;
      const MaskPoint here = place(row, column);
      dot(here.x, here.y);
      if (on(row, column + 1)) line(here, place(row, column + 1));
      if (on(row + 1, column)) line(here, place(row + 1, column));
      for (const int side : {-1, 1}) {
        if (on(row + 1, column + side) && !on(row, column + side) && !on(row + 1, column))
          line(here, place(row + 1, column + side));
      }
    }
  }
}

void FinePrint::ring(int direction) {
  const int size = size_.width_px;
  const int opening = size / 4 + 1;  // half of it, in half pixels
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const int across = 2 * x + 1 - size;  // from the middle, in half pixels
      const int down = 2 * y + 1 - size;
      const int square = across * across + down * down;
      if (square > size * size || square <= (size - 2) * (size - 2)) continue;
      const bool open = (direction == 0 && down < 0 && std::abs(across) < opening) ||
                        (direction == 1 && across > 0 && std::abs(down) < opening) ||
                        (direction == 2 && down > 0 && std::abs(across) < opening) ||
                        (direction == 3 && across < 0 && std::abs(down) < opening);
      if (!open) dot(x, y);
    }
  }
}

void FinePrint::arrow(int direction) {
  const int length = std::max(size_.width_px, size_.height_px);
  const int wing = arrow_wing_px(length);
  const auto point = [&](int along, int aside) {  // from the tail, and from the shaft
    const int at = direction == 0 || direction == 3 ? length - 1 - along : along;
    return direction % 2 == 1 ? MaskPoint{at, wing + aside} : MaskPoint{wing + aside, at};
  };
  line(point(0, 0), point(length - 1, 0));
  for (const int side : {-1, 1}) line(point(length - 1, 0), point(length - 1 - wing, side * wing));
}

Size label_size(const Card& card) {
  const int height_px = card.payload_px;
  const int ticks_px = 5 * kTickPitchPx + 1;
  const int width_px =
      std::max({2 * glyph_width_px(height_px) + glyph_gap_px(height_px), ticks_px, height_px});
  return {width_px + 2 * kLabelMarginPx, height_px + 2 * kLabelMarginPx};
}

void paint_label(const CardCanvas& canvas, const Card& card, MaskPoint centre, uint8_t grey) {
  const Size label = label_size(card);
  const int left = (centre.x - label.width_px / 2) / 2 * 2;
  const int top = (centre.y - label.height_px / 2) / 2 * 2;
  CardMask plate((label.width_px + 1) / 2 * 2, (label.height_px + 1) / 2 * 2);
  plate.add_rectangle(0, 0, plate.width_px() * kSixteenths, plate.height_px() * kSixteenths);
  blend(canvas, left, top, plate, {{grey, grey, grey}});
}

void paint_fine_print(const CardCanvas& canvas, const Card& card, MaskPoint centre) {
  paint_label(canvas, card, centre, kLabelGrey);
  const FinePrint print(card);
  const int x0 = centre.x - print.size().width_px / 2;
  const int y0 = centre.y - print.size().height_px / 2;
  const auto ink = [&](int x, int y) {
    return x >= x0 && y >= y0 && x < x0 + print.size().width_px &&
           y < y0 + print.size().height_px && print.ink(x - x0, y - y0);
  };
  const CardBox& box = card.payload_box;
  for (int y = box.y0; y < box.y1; y += 2) {
    for (int x = box.x0; x < box.x1; x += 2) {
      int inked = 0;
      for (int i = 0; i < 4; ++i) inked += ink(x + i % 2, y + i / 2) ? 1 : 0;
      for (int i = 0; i < 4; ++i) {
        const int change = ink(x + i % 2, y + i / 2) ? -kStep * (4 - inked) : kStep * inked;
        uint8_t* pixel = canvas.at(x + i % 2, y + i / 2);
        std::fill(pixel, pixel + 3, static_cast<uint8_t>(kLabelGrey + change));
      }
    }
  }
}

}  // namespace fovea
