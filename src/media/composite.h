// SPDX-License-Identifier: Apache-2.0
// Alpha over white.
#pragma once

#include <cstdint>

namespace fovea {

// round(a * b / 255) for a, b in 0..255.
inline uint32_t multiply_unit(uint32_t a, uint32_t b) {
  const uint32_t product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

// round((value * alpha + 255 * (255 - alpha)) / 255).
inline uint8_t over_white(uint32_t value, uint32_t alpha) {
  return static_cast<uint8_t>(255 - multiply_unit(255 - value, alpha));
}

}  // namespace fovea
