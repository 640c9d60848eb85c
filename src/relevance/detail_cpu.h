// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fovea {

// The sum over `count` child pixels and RGB of (child - parent)^2, where children 2i and 2i+1
// belong to parent i. At most 2 * kCellPx children: one row of a cell. children: [count][3],
// parents: [(count + 1) / 2][3]
uint64_t lost_in_row(const uint8_t* children, const uint8_t* parents, int count);

}  // namespace fovea
