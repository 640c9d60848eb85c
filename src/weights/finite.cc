// SPDX-License-Identifier: Apache-2.0
#include "weights/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "weights/finite_cpu.h"

namespace fovea {
namespace {

// The fast form tells whether, the reference where; a block is read again only when one is found.
constexpr int64_t kBlockValues = 32 * 1024;

bool any_not_finite(DType dtype, const void* data, int64_t count) {
  if (dtype == DType::kF32)
    return any_full_exponent32(static_cast<const uint32_t*>(data), count, 0x7F800000);
  return any_full_exponent16(static_cast<const uint16_t*>(data), count,
                             dtype == DType::kF16 ? 0x7C00 : 0x7F80);
}

bool is_nan(const TensorView& tensor, int64_t index) {
  if (tensor.dtype == DType::kF32)
    return (static_cast<const uint32_t*>(tensor.data)[index] & 0x007FFFFF) != 0;
  const uint16_t mantissa = tensor.dtype == DType::kF16 ? 0x03FF : 0x007F;
  return (static_cast<const uint16_t*>(tensor.data)[index] & mantissa) != 0;
}

}  // namespace

int64_t first_not_finite(DType dtype, const void* data, int64_t count) {
  FOVEA_CHECK(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16);
  const int64_t value_bytes = dtype_bits(dtype) / 8;
  for (int64_t begin = 0; begin < count; begin += kBlockValues) {
    const int64_t values = std::min(kBlockValues, count - begin);
    const void* block = static_cast<const std::byte*>(data) + begin * value_bytes;
    if (!any_not_finite(dtype, block, values)) continue;
    const int64_t found = first_not_finite_reference(dtype, block, values);
    // Gone on the second reading: another process writes into the file, which intact() will tell.
    if (found >= 0) return begin + found;
  }
  return -1;
}

Error not_finite(const TensorView& tensor, int64_t index) {
  std::vector<int64_t> place(static_cast<size_t>(tensor.shape.rank));
  int64_t rest = index;
  for (int i = tensor.shape.rank - 1; i >= 0; --i) {
    place[static_cast<size_t>(i)] = rest % tensor.shape[i];
    rest /= tensor.shape[i];
  }
  return bad_input(
      fmt::format("tensor {} holds {} at [{}]; the checkpoint is damaged, download or "
                  "convert it again",
                  in_quotes(tensor.name), is_nan(tensor, index) ? "NaN" : "an infinite value",
                  fmt::join(place, ", ")));
}

}  // namespace fovea
