// SPDX-License-Identifier: Apache-2.0
#include "weights/finite.h"

namespace fovea {
namespace {

// A value is not finite when every bit of its exponent is set.
template <class Bits>
int64_t first_with_full_exponent(const void* data, int64_t count, Bits exponent) {
  const auto* values = static_cast<const Bits*>(data);
  for (int64_t i = 0; i < count; ++i)
    if ((values[i] & exponent) == exponent) return i;
  return -1;
}

}  // namespace

int64_t first_not_finite_reference(DType dtype, const void* data, int64_t count) {
  if (dtype == DType::kF32) return first_with_full_exponent<uint32_t>(data, count, 0x7F800000);
  if (dtype == DType::kF16) return first_with_full_exponent<uint16_t>(data, count, 0x7C00);
  return first_with_full_exponent<uint16_t>(data, count, 0x7F80);
}

}  // namespace fovea
