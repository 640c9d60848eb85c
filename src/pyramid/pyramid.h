// SPDX-License-Identifier: Apache-2.0
// pyramid: Image -> Pyramid. Level l is level l-1 halved by an exact 2x2 box filter, rounded half
// up.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
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

// The same, writable: what the downsampling writes and an edit of the canvas touches.
struct LevelPixels {
  uint8_t* rgb = nullptr;
  Size size;
  int64_t stride_bytes = 0;

  uint8_t* row(int y) const { return rgb + y * stride_bytes; }
};

// Edits of a canvas are told in tiles, each a run of 64 cells. They are that wide because an update
// waits for memory, not for arithmetic: the rows of a tile lie a row of the canvas apart, and short
// runs are fetched several times slower than long ones (one tile in twenty: 8 % of a full build;
// squares of the same area: 13 %). A tile makes five levels without looking at its neighbours.
inline constexpr int kTileLevels = 5;
inline constexpr int kTileWidthPx = 64 * kCellPx;
inline constexpr int kTileHeightPx = 1 << kTileLevels;

struct Tile {
  int row = 0;
  int col = 0;

  friend bool operator==(const Tile&, const Tile&) = default;
  friend auto operator<=>(const Tile&, const Tile&) = default;  // NOLINT(modernize-use-nullptr)
};

// The tiles of a canvas: rows x cols; those on the right and lower edge may hang over it.
inline Grid tile_grid(Size canvas) {
  return {(canvas.height_px + kTileHeightPx - 1) / kTileHeightPx,
          (canvas.width_px + kTileWidthPx - 1) / kTileWidthPx};
}

inline constexpr int kMaxLevels = 24;

// All levels of a canvas. Level l has ceil(side / 2^l) pixels a side. Levels from 1 on start their
// rows on cache lines, so use the view's stride.
class Pyramid {
 public:
  int levels() const { return static_cast<int>(levels_.size()); }
  LevelView level(int index) const {
    const LevelPixels& pixels = levels_[static_cast<size_t>(index)];
    return {pixels.rgb, pixels.size, pixels.stride_bytes};
  }
  Size canvas() const { return levels_.front().size; }

  // Level 0 as an image; nothing of the pyramid is left.
  Image take_canvas() && { return std::move(level0_); }

  // Level 0 for writing. The coarser levels follow with update_pyramid or rebuild_pyramid.
  LevelPixels edit() { return levels_.front(); }

 private:
  friend Pyramid build_pyramid_from(Threads&, Image&, int);
  friend std::vector<Pyramid> build_pyramids(Threads&, std::vector<Image>, int);
  friend void rebuild_pyramids(Threads&, std::span<Pyramid>);
  friend Image rebuild_pyramid(Threads&, Pyramid&, Image);
  friend void update_pyramid(Threads&, Pyramid&, std::span<const Tile>);
  friend Image update_pyramid(Threads&, Pyramid&, Image, std::span<const Tile>);

  Pyramid(Image& canvas, int levels);  // moves from it where all goes well
  Image exchange_canvas(Image canvas);

  Image level0_;
  std::unique_ptr<uint8_t[]> coarse_;  // levels 1.. one after the other
  std::vector<LevelPixels> levels_;
};

// Builds all levels in one sweep over the canvas, which becomes level 0. `levels` counts level 0;
// 0 means: until one cell covers the canvas.
Pyramid build_pyramid(Threads& threads, Image canvas, int levels = 0);

// The same from a canvas that stays as it was where memory runs out.
Pyramid build_pyramid_from(Threads& threads, Image& canvas, int levels = 0);

// A batch, shared out over the threads as one piece of work.
std::vector<Pyramid> build_pyramids(Threads& threads, std::vector<Image> canvases, int levels = 0);

// Recomputes every level from level 0, in the memory the pyramid has.
void rebuild_pyramid(Threads& threads, Pyramid& pyramid);

void rebuild_pyramids(Threads& threads, std::span<Pyramid> pyramids);

// The same for a new canvas of the same size. Returns the old one, whose memory can take the next.
Image rebuild_pyramid(Threads& threads, Pyramid& pyramid, Image canvas);

// Recomputes what depends on the changed tiles of level 0, in any order, repeated or not. The
// result equals a rebuild bit for bit when no pixel outside of them was edited.
void update_pyramid(Threads& threads, Pyramid& pyramid, std::span<const Tile> changed);

// The same for a new canvas that differs from the present one in the changed tiles alone, such as
// the next frame. No pixel is copied. Returns the old canvas.
Image update_pyramid(Threads& threads, Pyramid& pyramid, Image canvas,
                     std::span<const Tile> changed);

}  // namespace fovea
