// SPDX-License-Identifier: Apache-2.0
// Payloads that level 0 alone shows. They are lines one pixel wide on a grey label, and every 2x2
// block of pixels that level 1 averages is printed so that its mean stays the label's grey: with k
// of its four pixels inked, the inked ones are 40 (4 - k) darker and the others 40 k lighter. So a
// coarser level shows a blank label, exactly, whatever is printed on it. A block with all four
// inked would vanish; lines one pixel wide fill none.
#pragma once

#include <vector>

#include "cards/mask.h"

namespace fovea {

inline constexpr int kFinePrintPx = 13;     // payloads up to this height are fine print
inline constexpr uint8_t kLabelGrey = 128;  // of level 1 and coarser under a payload

inline bool is_fine_print(const Card& card) { return card.payload_px <= kFinePrintPx; }

// Which pixels have ink.
class FinePrint {
 public:
  explicit FinePrint(const Card& card);

  Size size() const { return size_; }
  bool ink(int x, int y) const {
    return ink_[static_cast<size_t>(y) * static_cast<size_t>(size_.width_px) +
                static_cast<size_t>(x)] != 0;
  }

 private:
  void dot(int x, int y);
  void line(MaskPoint from, MaskPoint to);
  void glyph(int index, int left_px, int width_px);
  void ring(int direction);
  void arrow(int direction);

  Size size_;
  std::vector<uint8_t> ink_;
};

// The label of a card: as large for every kind of payload of its height, so that it tells nothing.
Size label_size(const Card& card);

// Paints the label around `centre`; its borders are even, so that it fills whole blocks.
void paint_label(const CardCanvas& canvas, const Card& card, MaskPoint centre, uint8_t grey);

// Paints the label and prints on it; the payload's box has even borders.
void paint_fine_print(const CardCanvas& canvas, const Card& card, MaskPoint centre);

}  // namespace fovea
