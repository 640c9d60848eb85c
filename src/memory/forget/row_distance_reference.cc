// SPDX-License-Identifier: Apache-2.0
#include "memory/forget/row_distance.h"

namespace fovea {

float squares_apart_reference(const float* a, float part_a, const float* b, float part_b,
                              int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double apart = double{a[i]} * part_a - double{b[i]} * part_b;
    sum += apart * apart;
  }
  return static_cast<float>(sum);
}

}  // namespace fovea
