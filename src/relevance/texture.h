// SPDX-License-Identifier: Apache-2.0
// Texture: how much lightness changes from pixel to pixel, the gradient energy salience is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

// One value a pixel of a small picture.
struct Plane {
  Size size;
  std::vector<uint32_t> value;  // [height][width]

  Plane() = default;
  explicit Plane(Size plane_size)
      : size(plane_size), value(static_cast<size_t>(plane_size.pixels())) {}

  const uint32_t* row(int y) const { return value.data() + static_cast<size_t>(y) * size.width_px; }
  uint32_t* row(int y) { return value.data() + static_cast<size_t>(y) * size.width_px; }
};

// For every pixel of a level whose pixels are `factor` x `factor` pixels (1, 2 or 4) of `fine`:
//   16 * mean over its fine pixels p of (|L(p) - L(left)| + |L(p) - L(right)| + |... up| + |...
//   down|)
// rounded down, over the fine pixels that exist; a neighbour outside the picture is p itself. A
// step counts for the pixels on both of its sides, so a mirrored picture gives the mirrored plane.
Plane measure_texture(Threads& threads, const LevelView& fine, int factor);
Plane measure_texture_reference(const LevelView& fine, int factor);

}  // namespace fovea
