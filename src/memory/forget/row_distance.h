// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fovea {

// The sum over i < count of (a[i] * part_a - b[i] * part_b)^2; count is a multiple of 4.
float squares_apart(const float* a, float part_a, const float* b, float part_b, int64_t count);
float squares_apart_reference(const float* a, float part_a, const float* b, float part_b,
                              int64_t count);

}  // namespace fovea
