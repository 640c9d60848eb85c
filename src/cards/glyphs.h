// SPDX-License-Identifier: Apache-2.0
// The font of the codes: 5x7, drawn so that any two glyphs differ in at least five places.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cards/cards.h"

namespace fovea {

inline constexpr int kGlyphColumns = 5;
inline constexpr int kGlyphRows = 7;

// Rows from the top, the leftmost column in the highest of five bits; in kCodeAlphabet's order.
using Glyph = std::array<uint8_t, kGlyphRows>;
extern const std::array<Glyph, kCodeAlphabet.size()> kGlyphs;

inline bool glyph_ink(const Glyph& glyph, int row, int column) {
  return ((glyph[static_cast<size_t>(row)] >> (kGlyphColumns - 1 - column)) & 1) != 0;
}

// Of a code of this height.
inline int glyph_width_px(int height_px) { return (10 * height_px + 7) / 14; }
inline int glyph_gap_px(int height_px) { return std::max(2, height_px / 6); }

}  // namespace fovea
