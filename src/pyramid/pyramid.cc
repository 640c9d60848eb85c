// SPDX-License-Identifier: Apache-2.0
#include "pyramid/pyramid.h"

#include <utility>

#include "base/check.h"
#include "pyramid/downsample.h"

namespace fovea {
namespace {

int64_t up_to_lines(int64_t bytes) {
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

void check_canvas(const Image& canvas) {
  FOVEA_CHECK(canvas.size.width_px >= 1 && canvas.size.height_px >= 1);
  FOVEA_CHECK(static_cast<int64_t>(canvas.rgb.size()) == canvas.size.pixels() * 3);
}

}  // namespace

Pyramid::Pyramid(Image& canvas, int levels) {
  check_canvas(canvas);
  FOVEA_CHECK(levels >= 0 && levels <= kMaxLevels);
  const int count = levels == 0 ? level_count(canvas.size) : levels;
  levels_.push_back({canvas.rgb.data(), canvas.size, int64_t{3} * canvas.size.width_px});
  std::vector<int64_t> starts{0};  // of the coarse levels
  for (int level = 1; level < count; ++level) {
    const Size fine = levels_.back().size;
    const Size size{(fine.width_px + 1) / 2, (fine.height_px + 1) / 2};
    levels_.push_back({nullptr, size, up_to_lines(int64_t{3} * size.width_px)});
    starts.push_back(starts.back() + levels_.back().stride_bytes * size.height_px);
  }
  const int64_t room = starts.back() + kCacheLineBytes;  // to start on a line
  coarse_ = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(room));
  const auto address = reinterpret_cast<uintptr_t>(coarse_.get());
  uint8_t* base =
      coarse_.get() + (up_to_lines(static_cast<int64_t>(address)) - static_cast<int64_t>(address));
  for (size_t level = 1; level < levels_.size(); ++level)
    levels_[level].rgb = base + starts[level - 1];
  level0_ = std::move(canvas);  // whose pixels stay where they are
}

Image Pyramid::exchange_canvas(Image canvas) {
  check_canvas(canvas);
  FOVEA_CHECK(canvas.size == level0_.size);
  std::swap(level0_, canvas);
  levels_.front().rgb = level0_.rgb.data();
  return canvas;
}

std::vector<Pyramid> build_pyramids(Threads& threads, std::vector<Image> canvases, int levels) {
  std::vector<Pyramid> pyramids;
  pyramids.reserve(canvases.size());
  for (Image& canvas : canvases) pyramids.push_back(Pyramid(canvas, levels));
  rebuild_pyramids(threads, pyramids);
  return pyramids;
}

Pyramid build_pyramid_from(Threads& threads, Image& canvas, int levels) {
  Pyramid pyramid(canvas, levels);
  try {
    rebuild_pyramid(threads, pyramid);
  } catch (...) {
    canvas = std::move(pyramid).take_canvas();
    throw;
  }
  return pyramid;
}

Pyramid build_pyramid(Threads& threads, Image canvas, int levels) {
  return build_pyramid_from(threads, canvas, levels);
}

void rebuild_pyramids(Threads& threads, std::span<Pyramid> pyramids) {
  std::vector<Levels> batch;
  for (const Pyramid& pyramid : pyramids) batch.emplace_back(pyramid.levels_);
  downsample(threads, batch);
}

void rebuild_pyramid(Threads& threads, Pyramid& pyramid) {
  rebuild_pyramids(threads, {&pyramid, 1});
}

Image rebuild_pyramid(Threads& threads, Pyramid& pyramid, Image canvas) {
  Image old = pyramid.exchange_canvas(std::move(canvas));
  rebuild_pyramid(threads, pyramid);
  return old;
}

void update_pyramid(Threads& threads, Pyramid& pyramid, std::span<const Tile> changed) {
  const Grid grid = tile_grid(pyramid.canvas());
  for (const Tile& tile : changed)
    FOVEA_CHECK(tile.row >= 0 && tile.row < grid.rows && tile.col >= 0 && tile.col < grid.cols);
  downsample_tiles(threads, pyramid.levels_, changed);
}

Image update_pyramid(Threads& threads, Pyramid& pyramid, Image canvas,
                     std::span<const Tile> changed) {
  Image old = pyramid.exchange_canvas(std::move(canvas));
  update_pyramid(threads, pyramid, changed);
  return old;
}

}  // namespace fovea
