// SPDX-License-Identifier: Apache-2.0
#include "language/positions.h"

#include <algorithm>

#include "base/check.h"
#include "patches/patches.h"

namespace fovea {

PromptPositions prompt_positions(size_t count, std::span<const ImageSpan> images, float start) {
  PromptPositions positions;
  positions.tokens.reserve(count);
  positions.next = start;
  const auto add_text_until = [&](size_t end) {
    FOVEA_CHECK(positions.tokens.size() <= end && end <= count);
    for (; positions.tokens.size() < end; positions.next += 1)
      positions.tokens.push_back(text_position(positions.next));
  };
  for (const ImageSpan& image : images) {
    add_text_until(image.at);
    const float origin = positions.next;
    for (const Cell& cell : image.cells)
      positions.tokens.push_back({origin, origin + place_at(cell.row, cell.level, image.grid.rows),
                                  origin + place_at(cell.col, cell.level, image.grid.cols)});
    positions.next = origin + static_cast<float>(std::max(image.grid.rows, image.grid.cols));
  }
  add_text_until(count);
  return positions;
}

}  // namespace fovea
