// SPDX-License-Identifier: Apache-2.0
// A tensor that a model must hold, as it was found in the files.
#pragma once

#include <optional>
#include <string>

#include "fovea/result.h"
#include "weights/tensor.h"

namespace fovea {

// The tensor, known to be there in its shape, as F32, F16 or BF16, aligned to an element. The error
// names it, and what is wrong.
Result<TensorView> checked_tensor(const std::optional<TensorView>& tensor, const std::string& name,
                                  const Shape& shape);

}  // namespace fovea
