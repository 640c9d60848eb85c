// SPDX-License-Identifier: Apache-2.0
// Looks for NaN and infinity among weights, as fast as they can be read.
#pragma once

#include <cstdint>

#include "fovea/result.h"
#include "weights/tensor.h"

namespace fovea {

// The index of the first of `count` values that is NaN or infinite; -1 where all are finite.
// `dtype` is kF32, kF16 or kBf16; `data` is aligned to an element.
int64_t first_not_finite(DType dtype, const void* data, int64_t count);
int64_t first_not_finite_reference(DType dtype, const void* data, int64_t count);

// The error for the value at `index` of a tensor, which first_not_finite found.
Error not_finite(const TensorView& tensor, int64_t index);

}  // namespace fovea
