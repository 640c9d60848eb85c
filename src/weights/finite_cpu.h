// SPDX-License-Identifier: Apache-2.0
// The fast form of first_not_finite, for the machine this runs on.
#pragma once

#include <cstdint>

namespace fovea {

// Whether any of the values has every bit of `exponent` set.
bool any_full_exponent16(const uint16_t* values, int64_t count, uint16_t exponent);
bool any_full_exponent32(const uint32_t* values, int64_t count, uint32_t exponent);

}  // namespace fovea
