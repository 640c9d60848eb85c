// SPDX-License-Identifier: Apache-2.0
// Shares the blocks of a sweep out over the threads.
#include "pyramid/downsample.h"

#include <algorithm>
#include <vector>

namespace fovea {
namespace {

// A sweep cuts an image into bands of 32 whole rows, each of which makes five levels on its own;
// the fifth, a thousandth of the pixels, is the source of a second sweep. Whole rows, because
// memory is read fastest in long runs.
constexpr int kBandLevels = 6;
constexpr int kBandRows = 1 << kBandLevels;

// Threads take at least this much of the source at a time.
constexpr int64_t kShareBytes = 64 << 10;

int64_t bytes_of(const LevelPixels& level) { return level.size.pixels() * 3; }

// The levels `first` and up to `count` coarser ones.
Levels from(Levels levels, int first, int count) {
  const auto start = static_cast<size_t>(first);
  return levels.subspan(start, std::min(levels.size() - start, static_cast<size_t>(count) + 1));
}

// One sweep over images that still have levels to make.
void sweep(Threads& threads, std::span<const Levels> batch) {
  std::vector<int64_t> first_band{0};  // of each image
  int64_t total_bytes = 0;
  for (const Levels& levels : batch) {
    first_band.push_back(first_band.back() +
                         (levels[0].size.height_px + kBandRows - 1) / kBandRows);
    total_bytes += bytes_of(levels[0]);
  }
  const int64_t bands = first_band.back();
  const int64_t share =
      std::max<int64_t>(1, bands * kShareBytes / std::max<int64_t>(1, total_bytes));
  threads.for_each(bands, share, [&](int64_t begin, int64_t end) {
    auto image = std::upper_bound(first_band.begin(), first_band.end(), begin) - 1;
    for (int64_t band = begin; band < end; ++band) {
      if (band == *(image + 1)) ++image;
      const Levels& levels = batch[static_cast<size_t>(image - first_band.begin())];
      const int y_px = static_cast<int>(band - *image) * kBandRows;
      const Size size = levels[0].size;
      downsample_block(levels,
                       {0, y_px, size.width_px, std::min(kBandRows, size.height_px - y_px)});
    }
  });
}

}  // namespace

void downsample(Threads& threads, std::span<const Levels> batch) {
  std::vector<Levels> left;
  for (int first = 0;; first += kBandLevels) {
    left.clear();
    for (const Levels& levels : batch)
      if (first + 1 < static_cast<int>(levels.size()))
        left.push_back(from(levels, first, kBandLevels));
    if (left.empty()) return;
    sweep(threads, left);
  }
}

void downsample_tiles(Threads& threads, Levels levels, std::span<const Tile> tiles) {
  std::vector<Tile> changed(tiles.begin(), tiles.end());
  for (int first = 0; first + 1 < static_cast<int>(levels.size()); first += kTileLevels) {
    // In order, so that neighbours share pages; once each, so that no two threads write one pixel.
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    const Levels part = from(levels, first, kTileLevels);
    const Size size = part[0].size;
    threads.for_each(static_cast<int64_t>(changed.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Tile tile = changed[static_cast<size_t>(i)];
        const int x_px = tile.col * kTileWidthPx;
        const int y_px = tile.row * kTileHeightPx;
        downsample_block(part, {x_px, y_px, std::min(kTileWidthPx, size.width_px - x_px),
                                std::min(kTileHeightPx, size.height_px - y_px)});
      }
    });
    // The next round starts from a level where a tile is 2^kTileLevels times smaller.
    for (Tile& tile : changed) tile = {tile.row >> kTileLevels, tile.col >> kTileLevels};
  }
}

}  // namespace fovea
