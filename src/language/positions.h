// SPDX-License-Identifier: Apache-2.0
// Where the tokens of a prompt stand: text counts up, the cells of an image lie on its grid.
#pragma once

#include <span>
#include <vector>

#include "fovea/words.h"
#include "language/decoder.h"

namespace fovea {

// The tokens of an image's cells stand at `at` and following of a prompt.
struct ImageSpan {
  size_t at = 0;
  std::span<const Cell> cells;
  Grid grid;  // the whole canvas in level-0 cells, whatever part of it the cells cover
};

struct PromptPositions {
  std::vector<TokenPosition> tokens;
  float next = 0;  // of the token that follows
};

inline TokenPosition text_position(float at) { return {at, at, at}; }

// Of `count` tokens; all that are not in an image are text. The first stands at `start`. An image
// that begins at s has its cell centres at time s, s + row and s + col, and what follows it goes on
// at s + the longer side of its grid, so that a plan's size moves nothing after it. Images are in
// order and do not overlap.
PromptPositions prompt_positions(size_t count, std::span<const ImageSpan> images, float start = 0);

}  // namespace fovea
