// SPDX-License-Identifier: Apache-2.0
// Conversions of weights, vectorised. Sources are aligned to an element and no more.
#pragma once

#include <cstdint>

#include "ops/matrix.h"

namespace fovea {

// count values from `begin` on, as f32 or rounded to bf16 (ties to even).
void convert_to_f32(const WeightSource& source, int64_t begin, int64_t count, float* out);
void convert_to_bf16(const WeightSource& source, int64_t begin, int64_t count, uint16_t* out);

// Rows [row, row + 16), as far as they are below `rows`, of a source [rows][cols] as a panel of
// Int8Layout. A block's scale is its largest size / 127, rounded up to bf16.
void quantise_panel(const WeightSource& source, int64_t row, int64_t rows, int64_t cols,
                    uint8_t* panel);

}  // namespace fovea
