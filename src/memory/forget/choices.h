// SPDX-License-Identifier: Apache-2.0
// The parts of choose_rows() that work on one layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/forget/forget.h"

namespace fovea {

// Groups of tokens -> rows. group_of[t] names a group by any number up to the number of tokens;
// kForgotten: none.
KeptRows rows_of_groups(std::span<const int32_t> group_of);
// One row for each of these tokens, which are in order.
KeptRows rows_of_tokens(std::span<const int32_t> tokens, int64_t count);

// The `rows` tokens of the greatest mass, the first where two are equal; in order.
std::vector<int32_t> greatest(std::span<const float> mass, int64_t rows);

// Neighbours that are alike become one until `rows` are left, where links connect so many: always
// the two groups a, b whose union adds least to the sum of squared distances to the mean,
//   |a| |b| / (|a| + |b|) * |mean(a) - mean(b)|^2,
// of keys and values, each over their mean square. A row counts for as many as it holds.
KeptRows merge_rows(const ForgetScene& scene, const ForgetLayer& layer, int64_t rows);

// The greatest, and some of the rows made of the best of those that go, by density peaks: a centre
// is a key in a dense place far from any denser one; the others go to the nearest centre.
KeptRows recycle_rows(const ForgetScene& scene, const ForgetLayer& layer, int64_t rows);

}  // namespace fovea
