// SPDX-License-Identifier: Apache-2.0
// pyramid: Image -> Pyramid. Level l is level l-1 halved by an exact 2x2 box filter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/threads.h"
#include "fovea/words.h"

namespace fovea {

// One level, read-only: [height][width][3] with `stride_bytes` between rows.
struct LevelView {
  const uint8_t* rgb = nullptr;
  Size size;
  int64_t stride_bytes = 0;

  const uint8_t* row(int y) const { return rgb + y * stride_bytes; }
};

// All levels of a canvas. Level l has ceil(side / 2^l) pixels a side; the last one fits one cell.
class Pyramid {
 public:
  int levels() const { return static_cast<int>(views_.size()); }
  LevelView level(int index) const { return views_[static_cast<size_t>(index)]; }
  Size canvas() const { return views_.front().size; }

 private:
  friend Pyramid build_pyramid(Threads&, Image);
  friend void rebuild_pyramid(Threads&, Pyramid&);
  friend class PyramidEditor;

  Image level0_;
  std::unique_ptr<uint8_t[]> coarse_;  // levels 1.. one after the other
  std::vector<LevelView> views_;
};

Pyramid build_pyramid(Threads& threads, Image canvas);

}  // namespace fovea
