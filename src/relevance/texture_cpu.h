// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fovea {

// sums[x] += the four steps of pixel x of `here`, for x in [0, count). Each row has a readable
// pixel before its first and after its last.
void add_steps(const uint8_t* above, const uint8_t* here, const uint8_t* below, int count,
               uint16_t* sums);

}  // namespace fovea
