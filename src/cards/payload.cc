// SPDX-License-Identifier: Apache-2.0
#include "cards/payload.h"

#include <algorithm>
#include <array>

#include "cards/fine_print.h"
#include "cards/glyphs.h"
#include "cards/shapes.h"

namespace fovea {
namespace {

constexpr CardInk kBlack = {{14, 14, 18}};

// A card hardly larger than its ink needs: no liberties are taken on it.
bool is_tight(const Card& card) { return card.card_box.width_px() < 4 * card.payload_px; }

// Ticks in sixteenths of a pixel. Pitch and stroke vary from card to card, so that neither the
// width nor the darkness of the group, which a coarse level shows, gives the number away.
struct TickSize {
  int pitch;
  int stroke;
};

TickSize tick_size(const Card& card) {
  const int height = card.payload_px * kSixteenths;
  const int stroke_percent = 15 + static_cast<int>((card.style_bits >> 20) % 7);
  const int pitch_percent = 36 + static_cast<int>((card.style_bits >> 24) % 13);
  const int stroke = std::max(3 * kSixteenths / 2, height * stroke_percent / 100);
  // Six of them must lie on the shape.
  const int widest = (card.card_box.width_px() * kSixteenths * 52 / 100 - stroke) / 5;
  return {std::min(height * pitch_percent / 100, widest), stroke};
}

int pixels_around(int sixteenths) { return (sixteenths + kSixteenths - 1) / kSixteenths; }

// Shorter where it would leave a tight card.
int arrow_length_px(const Card& card) {
  return std::min((16 * card.payload_px + 5) / 10, card.card_box.width_px() * 48 / 100);
}
int arrow_width_px(int height_px) { return (9 * height_px + 5) / 10; }

Size ink_size(const Card& card) {
  const int height_px = card.payload_px;
  switch (card.kind) {
    case PayloadKind::kCode:
      return {2 * glyph_width_px(height_px) + glyph_gap_px(height_px), height_px};
    case PayloadKind::kTicks: {
      const TickSize tick = tick_size(card);
      return {pixels_around((card.number - 1) * tick.pitch + tick.stroke), height_px};
    }
    case PayloadKind::kGap:
      return {height_px, height_px};
    case PayloadKind::kArrow:
      break;
  }
  const Size lying = {arrow_length_px(card), arrow_width_px(height_px)};
  return card.direction % 2 == 1 ? lying : Size{lying.height_px, lying.width_px};
}

MaskPoint ink_centre(const Card& card) {
  const int side_px = card.card_box.width_px();
  const MaskPoint body = body_of(card.shape);
  // The ink is a little off the centre; a row of ticks, the widest ink, less so.
  const int room = is_tight(card) ? 0 : side_px / 28;
  const int side_room = card.kind == PayloadKind::kTicks ? room / 2 : room;
  const auto offset = [&](int shift, int most) {
    return static_cast<int>((card.style_bits >> shift) % 16) * (2 * most + 1) / 16 - most;
  };
  const int across = offset(12, side_room);
  const int down = offset(16, room);
  return {card.card_box.x0 + body.x * side_px / 1024 + across,
          card.card_box.y0 + body.y * side_px / 1024 + down};
}

// The share of each pixel that a glyph's squares cover, as an area filter has it.
void add_glyph(CardMask& mask, const Glyph& glyph, int left_px, int width_px, int height_px) {
  const int left = left_px * kSixteenths;
  const int width = width_px * kSixteenths;
  const int height = height_px * kSixteenths;
  for (int row = 0; row < kGlyphRows; ++row) {
    for (int column = 0; column < kGlyphColumns; ++column) {
      if (!glyph_ink(glyph, row, column)) continue;
      mask.add_rectangle(left + column * width / kGlyphColumns, row * height / kGlyphRows,
                         left + (column + 1) * width / kGlyphColumns,
                         (row + 1) * height / kGlyphRows);
    }
  }
}

void add_ring(CardMask& mask, int height_px, int direction) {
  const int size = height_px * kSixteenths;
  const MaskPoint middle = {size / 2, size / 2};
  const int stroke = size / 5;
  const int low = (size - stroke) / 2;  // the opening is as wide as the stroke
  const int high = low + stroke;
  mask.add([&](int y) {
    MaskSpans spans;
    add_disc(spans, middle, size / 2, y);
    cut_disc(spans, middle, size / 2 - stroke, y);
    if (direction == 0 && y < middle.y) spans.cut(low, high);
    if (direction == 2 && y > middle.y) spans.cut(low, high);
    if (direction == 1 && y >= low && y < high) spans.cut(middle.x, size);
    if (direction == 3 && y >= low && y < high) spans.cut(0, middle.x);
    return spans;
  });
}

void add_arrow(CardMask& mask, const Card& card) {
  const int height_px = card.payload_px;
  const int direction = card.direction;
  const int length = arrow_length_px(card) * kSixteenths;
  const int width = arrow_width_px(height_px) * kSixteenths;
  const int shaft = height_px * kSixteenths * 11 / 100;  // half of its width
  const int neck = length - height_px * kSixteenths * 6 / 10;
  // To the right, from its tail, around the middle of its width.
  std::array<MaskPoint, 7> points = {{{0, width / 2 - shaft},
                                      {neck, width / 2 - shaft},
                                      {neck, 0},
                                      {length, width / 2},
                                      {neck, width},
                                      {neck, width / 2 + shaft},
                                      {0, width / 2 + shaft}}};
  for (MaskPoint& point : points) {
    if (direction == 0 || direction == 3) point.x = length - point.x;
    if (direction % 2 == 0) std::swap(point.x, point.y);
  }
  mask.add_polygon(points);
}

}  // namespace

CardBox payload_box_of(const Card& card) {
  const bool fine = is_fine_print(card);
  const Size size = fine ? FinePrint(card).size() : ink_size(card);
  const MaskPoint centre = ink_centre(card);
  const int x0 = centre.x - size.width_px / 2;
  const int y0 = centre.y - size.height_px / 2;
  const CardBox box = {x0, y0, x0 + size.width_px, y0 + size.height_px};
  if (!fine) return box;
  return {box.x0 / 2 * 2, box.y0 / 2 * 2, (box.x1 + 1) / 2 * 2, (box.y1 + 1) / 2 * 2};
}

void paint_payload(const CardCanvas& canvas, const Card& card) {
  if (is_fine_print(card)) return paint_fine_print(canvas, card, ink_centre(card));
  const CardBox& box = card.payload_box;
  const int height_px = card.payload_px;
  CardMask mask(box.width_px(), box.height_px());
  switch (card.kind) {
    case PayloadKind::kCode: {
      const int width_px = glyph_width_px(height_px);
      for (int i = 0; i < 2; ++i)
        add_glyph(mask, kGlyphs[static_cast<size_t>(card.code[i])],
                  i * (width_px + glyph_gap_px(height_px)), width_px, height_px);
      break;
    }
    case PayloadKind::kTicks: {
      const TickSize tick = tick_size(card);
      for (int i = 0; i < card.number; ++i)
        mask.add_rectangle(i * tick.pitch, 0, i * tick.pitch + tick.stroke,
                           height_px * kSixteenths);
      break;
    }
    case PayloadKind::kGap:
      add_ring(mask, height_px, card.direction);
      break;
    case PayloadKind::kArrow:
      add_arrow(mask, card);
      break;
  }
  blend(canvas, box.x0, box.y0, mask, kBlack);
}

void paint_blank_payload(const CardCanvas& canvas, const Card& card, const CardMask& shape) {
  if (is_fine_print(card)) return paint_label(canvas, card, ink_centre(card), 0);
  const int side_px = card.card_box.width_px();
  const MaskPoint body = body_of(card.shape);
  const int room = side_px / 28 + 1;
  const int half_width = side_px * 28 / 100 + room;
  const int half_height = arrow_length_px(card) / 2 + room;
  const int x = body.x * side_px / 1024;
  const int y = body.y * side_px / 1024;
  CardMask mask(side_px, side_px);
  mask.add_rectangle((x - half_width) * kSixteenths, (y - half_height) * kSixteenths,
                     (x + half_width) * kSixteenths, (y + half_height) * kSixteenths);
  mask.intersect(shape);
  blend(canvas, card.card_box.x0, card.card_box.y0, mask, kBlack);
}

}  // namespace fovea
