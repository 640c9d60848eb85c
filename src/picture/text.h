// SPDX-License-Identifier: Apache-2.0
// Real text in a real font: UTF-8 in, smooth glyphs out. The font is built into the library.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/words.h"
#include "picture/colour.h"
#include "picture/paint.h"

namespace fovea {

// Code points that can be drawn: bytes that are not UTF-8 become U+FFFD (one for each longest
// valid prefix), control characters spaces; marks without a width of their own that steer shaping
// (joiners, variation selectors, direction marks) are dropped.
std::u32string decode_utf8(std::string_view bytes);

// The built-in font at any size. Glyphs stand side by side from left to right, with kerning; a
// character the font lacks is drawn as an empty box. Not for use by several threads at once.
class Font {
 public:
  Font();
  ~Font();
  Font(const Font&) = delete;
  Font& operator=(const Font&) = delete;

  // The pixels a line takes to the right of where it starts.
  int width_px(std::u32string_view text, int size_px);
  // A line's box reaches this far above and below its baseline.
  int ascent_px(int size_px) const;
  int descent_px(int size_px) const;
  int line_px(int size_px) const { return ascent_px(size_px) + descent_px(size_px); }

  // Draws a line whose box has its upper left corner at (x, y), and touches nothing outside that
  // box. Returns the x after it.
  int draw(Image& image, int x, int y, std::u32string_view text, int size_px, Rgb colour);

  // The text, or as much of its beginning as fits, with an ellipsis.
  std::u32string fit(std::u32string_view text, int size_px, int width_px);
  // Lines broken at spaces, inside a word only where it alone is too long; the last line that may
  // be used ends with an ellipsis where text is left over.
  std::vector<std::u32string> wrap(std::u32string_view text, int size_px, int width_px,
                                   int max_lines);

 private:
  struct Placed;
  struct Line;
  struct Face;

  Line place(std::u32string_view text, int size_px);
  size_t count_that_fits(std::u32string_view text, int size_px, int width_px);

  std::unique_ptr<Face> face_;
};

}  // namespace fovea
