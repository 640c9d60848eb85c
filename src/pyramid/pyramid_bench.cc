// SPDX-License-Identifier: Apache-2.0
// Times the pyramid against the machine's copy: level 0 read once, the other levels written once.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/bench.h"
#include "pyramid/downsample.h"
#include "pyramid/pyramid.h"

namespace fovea {
namespace {

constexpr int kHalvings = 5;  // "5 levels": the five that are made, as the peers make them

Image noise(Size size) {
  Image image(size);
  std::mt19937 random(1);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random() >> 9);
  return image;
}

double bytes_of(const Pyramid& pyramid) {
  double bytes = 0;
  for (int level = 0; level < pyramid.levels(); ++level)
    bytes += 3.0 * static_cast<double>(pyramid.level(level).size.pixels());
  return bytes;
}

// Every level, made again from level 0 by the reference, is what the pyramid holds.
bool verified(const Pyramid& pyramid) {
  std::vector<Image> images;
  std::vector<LevelPixels> levels;
  images.reserve(static_cast<size_t>(pyramid.levels()));
  levels.reserve(static_cast<size_t>(pyramid.levels()));
  for (int level = 0; level < pyramid.levels(); ++level)
    images.emplace_back(pyramid.level(level).size);
  for (Image& image : images)
    levels.push_back({image.rgb.data(), image.size, int64_t{3} * image.size.width_px});
  std::memcpy(images[0].rgb.data(), pyramid.level(0).rgb, images[0].rgb.size());
  downsample_reference(levels);
  for (int level = 0; level < pyramid.levels(); ++level) {
    const LevelView view = pyramid.level(level);
    for (int y = 0; y < view.size.height_px; ++y)
      if (std::memcmp(view.row(y), levels[static_cast<size_t>(level)].row(y),
                      static_cast<size_t>(3 * view.size.width_px)) != 0)
        return false;
  }
  return true;
}

// The copy bounds what lies in memory; images that fit the caches are timed without a limit.
enum class Lies { kInCaches, kInMemory };

void add_row(Bench& bench, bool good, const std::string& name, double ms, double bytes, Lies lies) {
  BenchRow row{name, ms, "ms", std::nullopt, fmt::format("{:.1f} GB/s", bytes / ms / 1e6)};
  if (lies == Lies::kInMemory) {
    row.limit = bytes / bench.copy_bytes_per_ms();
    row.note += fmt::format(", {:.0f} % of copy", 100 * *row.limit / ms);
  }
  bench.add(good, std::move(row));
}

void build(Bench& bench, Size size, int levels, const std::string& name, Lies lies) {
  Pyramid pyramid = build_pyramid(bench.threads, noise(size), levels);
  const bool good = verified(pyramid);
  const double ms = Bench::median_ms([&] { rebuild_pyramid(bench.threads, pyramid); }, 20);
  add_row(bench, good, name, ms, bytes_of(pyramid), lies);
}

void batch(Bench& bench) {
  constexpr int kImages = 16;
  std::vector<Pyramid> pyramids =
      build_pyramids(bench.threads, std::vector<Image>(kImages, noise({512, 512})));
  const bool good = std::all_of(pyramids.begin(), pyramids.end(), verified);
  const double ms = Bench::median_ms([&] { rebuild_pyramids(bench.threads, pyramids); }, 20);
  add_row(bench, good, "pyramid/16x512x512", ms, kImages * bytes_of(pyramids.front()),
          Lies::kInCaches);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Inverts every pixel of some tiles.
void edit(Threads& threads, const LevelPixels& canvas, std::span<const Tile> tiles) {
  threads.for_each(static_cast<int64_t>(tiles.size()), 1, [&](int64_t begin, int64_t) {
    const Tile tile = tiles[static_cast<size_t>(begin)];
    for (int y = 0; y < kTileHeightPx; ++y) {
      uint8_t* row = canvas.row(tile.row * kTileHeightPx + y) + 3 * tile.col * kTileWidthPx;
      for (int i = 0; i < 3 * kTileWidthPx; ++i) row[i] ^= 0xFF;
    }
  });
}

// Edits one tile in twenty, others each time, and times what follows. Full builds in between, so
// that both meet the same machine.
void update(Bench& bench) {
  using Clock = std::chrono::steady_clock;
  const Size size{4096, 4096};
  Pyramid pyramid = build_pyramid(bench.threads, noise(size), kHalvings + 1);
  const Grid grid = tile_grid(size);
  std::vector<Tile> tiles;
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) tiles.push_back({row, col});
  std::mt19937 random(2);
  std::vector<double> build_ms;
  std::vector<double> update_ms;
  const auto timed = [](std::vector<double>& times, const auto& body) {
    const auto start = Clock::now();
    body();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  };
  const auto edit_and_update = [&] {
    std::shuffle(tiles.begin(), tiles.end(), random);
    const std::span<const Tile> changed = std::span(tiles).first(tiles.size() / 20 + 1);
    edit(bench.threads, pyramid.edit(), changed);
    timed(update_ms, [&] { update_pyramid(bench.threads, pyramid, changed); });
  };
  edit_and_update();
  const bool good = verified(pyramid);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i) timed(build_ms, [&] { rebuild_pyramid(bench.threads, pyramid); });
    for (int i = 0; i < 5; ++i) edit_and_update();
  }
  const double ms = median(update_ms);
  bench.add(good,
            {"pyramid/update-5%", ms, "ms", bytes_of(pyramid) / 20 / bench.copy_bytes_per_ms(),
             fmt::format("{:.1f} % of a full build", 100 * ms / median(build_ms))});
}

const BenchRegistration kRegistration("front-end", "pyramid", [](Bench& bench) {
  build(bench, {4096, 4096}, kHalvings + 1, "pyramid/4096x4096x5", Lies::kInMemory);
  build(bench, {1024, 1024}, 0, "pyramid/1024x1024", Lies::kInCaches);
  batch(bench);
  update(bench);
});

}  // namespace
}  // namespace fovea
