// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

// Cells whose bins are computed together: 8 x 32 x 32 bytes stay in the first-level cache.
inline constexpr int kInformationBlockCells = 8;

// Fills up to kInformationBlockCells cells of one row of `map`, from column `col` on.
void measure_information_block(const LevelView& level, int row, int col, Map& map);

}  // namespace fovea
