// SPDX-License-Identifier: Apache-2.0
// Halving: out = (a + b + c + d + 2) >> 2 of each 2x2 block, per channel, in integers. A side of
// odd length repeats its last row or column, so level l has ceil(side / 2^l) pixels a side.
#pragma once

#include <span>

#include "base/threads.h"
#include "fovea/words.h"
#include "pyramid/pyramid.h"

namespace fovea {

// levels[0] is the source; each further level has the size of the one before it, halved.
using Levels = std::span<const LevelPixels>;

// A rectangle of the finest level. With n levels to make, its corner lies on multiples of 2^n, and
// so do its sides unless they end at the edge of the level: then nothing outside of it is looked
// at.
struct Block {
  int x_px = 0;
  int y_px = 0;
  int width_px = 0;
  int height_px = 0;
};

inline constexpr int kCacheLineBytes = 64;

// The specification: all levels by plain loops.
void downsample_reference(Levels levels);

// Makes every coarser level of one block, fine rows first, each row as soon as the two under it are
// there: a row is read again while it lies in the nearest caches.
void downsample_block(Levels levels, const Block& block);

// Makes every level of a batch of images in one sweep.
void downsample(Threads& threads, std::span<const Levels> batch);

// Makes what depends on some tiles of levels[0].
void downsample_tiles(Threads& threads, Levels levels, std::span<const Tile> tiles);

}  // namespace fovea
