// SPDX-License-Identifier: Apache-2.0
// The words and figures around the panels: legend of the levels, header, caption.
#pragma once

#include <string>
#include <vector>

#include "fovea/words.h"
#include "picture/picture.h"
#include "picture/text.h"
#include "picture/view.h"

namespace fovea {

// 16384 as "16,384"; not for negative numbers.
std::string grouped(int64_t number);

// One entry for each level the plan uses, finest first, and one for what it leaves out.
class Legend {
 public:
  Legend(const Plan& plan, const Finest& finest, Font& font);

  // The height the entries take when they flow into lines of this width.
  int height_px(int width_px) const;
  void draw(const Rect& rect, Image& image) const;

 private:
  struct Entry {
    int level = 0;  // -1: not covered
    std::u32string text;
    int width_px = 0;
  };
  // The entries' places, relative to the upper left corner.
  std::vector<Rect> flow(int width_px) const;

  Font& font_;
  std::vector<Entry> entries_;
};

// Title and question over the panels.
class Header {
 public:
  Header(const Scenery& scenery, int width_px, Font& font);
  int height_px() const;
  void draw(int x, int y, Image& image) const;

 private:
  Font& font_;
  int width_px_;
  std::u32string title_;
  std::u32string sizes_;
  std::vector<std::u32string> question_;
};

// The caption under the panels, with a bar that sets the plan's tokens, by level, against the full
// number.
class Caption {
 public:
  Caption(const Scenery& scenery, int width_px, Font& font);
  int height_px() const;
  void draw(int x, int y, Image& image) const;

 private:
  const Plan& plan_;
  Font& font_;
  int width_px_;
  int64_t tokens_full_;
  std::vector<std::u32string> lines_;
};

}  // namespace fovea
