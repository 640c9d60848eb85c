// SPDX-License-Identifier: Apache-2.0
#include "weights/checked_tensor.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/text.h"

namespace fovea {

Result<TensorView> checked_tensor(const std::optional<TensorView>& tensor, const std::string& name,
                                  const Shape& shape) {
  const auto refuse = [&](const std::string& what) {
    return bad_input(fmt::format("tensor {} {} (the shape that config.json asks for is {})",
                                 in_quotes(name), what, shape.text()));
  };
  if (!tensor) return refuse("is missing");
  if (tensor->shape != shape) return refuse("has the shape " + tensor->shape.text());
  if (tensor->dtype != DType::kF32 && tensor->dtype != DType::kF16 && tensor->dtype != DType::kBf16)
    return refuse(
        fmt::format("is {}; only F32, F16 and BF16 are supported", dtype_name(tensor->dtype)));
  const auto address = reinterpret_cast<uintptr_t>(tensor->data);
  if (address % static_cast<uintptr_t>(dtype_bits(tensor->dtype) / 8) != 0)
    return refuse("does not lie at a multiple of its element; save the file again");
  return *tensor;
}

}  // namespace fovea
