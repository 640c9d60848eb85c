// SPDX-License-Identifier: Apache-2.0
// Pyramids on the device against its copy: level 0 read once, the other levels written once.
#include <algorithm>
#include <random>

#include "pyramid/bench_pyramids_cuda.h"
#include "pyramid/texture_cuda.h"

namespace fovea {
namespace {

constexpr int kLevels = 6;  // the canvas, and the five that are made, as the peers make them
constexpr Size kLarge = kEmulated ? Size{256, 128} : Size{4096, 4096};
constexpr Size kSquare = kEmulated ? Size{64, 64} : Size{1024, 1024};
constexpr int kBatch = kEmulated ? 3 : 32;
constexpr int kSets = kEmulated ? 1 : 3;

Image noise(Size size, uint32_t seed) {
  Image image(size);
  std::mt19937 random(seed + 1);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(random() >> 9);
  return image;
}

// Written over before, so that what was there does not pass for the result.
bool builds(CudaBench& bench, BenchPyramids& pyramids, PyramidLoads loads) {
  PyramidsOnDevice& set = pyramids.sets.front();
  const DevicePyramids view = set.view();
  for (int level = 1; level < view.levels; ++level)
    cudaMemsetAsync(view.rgb[level], 0xA5,
                    static_cast<size_t>(view.image_bytes[level] * view.images), bench.get());
  build_pyramids_cuda(bench.get(), view, set.done(), loads);
  const int last = view.images - 1;
  return same_levels(bench, view, 0, pyramid_of_cpu(bench, pyramids.of(0), view.levels)) &&
         (last == 0 ||
          same_levels(bench, view, last, pyramid_of_cpu(bench, pyramids.of(last), view.levels)));
}

double build_ms(CudaBench& bench, BenchPyramids& pyramids, PyramidLoads loads) {
  return bench.ms_of(static_cast<int>(pyramids.sets.size()), [&](int call) {
    PyramidsOnDevice& set = pyramids.of_call(call);
    build_pyramids_cuda(bench.get(), set.view(), set.done(), loads);
  });
}

void bench_build(CudaBench& bench, BenchPyramids& pyramids, const char* name, const char* wanted) {
  const bool verified = builds(bench, pyramids, PyramidLoads::kDirect) &&
                        builds(bench, pyramids, PyramidLoads::kStaged);
  const double direct_ms = build_ms(bench, pyramids, PyramidLoads::kDirect);
  const double staged_ms = build_ms(bench, pyramids, PyramidLoads::kStaged);
  const double ms = std::min(direct_ms, staged_ms);
  const auto limit = limit_of(pyramids.bytes(), bench.ceilings.copy_bytes_per_ms);
  bench.add(verified,
            {name, ms, "ms", limit,
             text_of("direct %.4f, staged %.4f ms; %.0f GB/s, %.0f %% of copy; %s", direct_ms,
                     staged_ms, pyramids.bytes() / ms / 1e6, percent_of(limit, ms), wanted)});
}

// Every pixel of some tiles inverted, on both sides.
void edit(Image& canvas, const std::vector<Tile>& tiles) {
  for (const Tile tile : tiles)
    for (int y = tile.row * kTileHeightPx;
         y < std::min((tile.row + 1) * kTileHeightPx, canvas.size.height_px); ++y)
      for (int x = 3 * tile.col * kTileWidthPx;
           x < 3 * std::min((tile.col + 1) * kTileWidthPx, canvas.size.width_px); ++x)
        canvas.row(y)[x] ^= 0xFF;
}

void bench_update(CudaBench& bench, BenchPyramids& pyramids) {
  const Grid grid = tile_grid(kLarge);
  std::vector<Tile> tiles;
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) tiles.push_back({row, col});
  std::mt19937 random(2);
  std::shuffle(tiles.begin(), tiles.end(), random);
  tiles.resize(tiles.size() / 20 + 1);
  DeviceMemory<Tile> changed;
  if (!bench.upload(changed, tiles)) return;
  const auto count = static_cast<int>(tiles.size());
  const auto update = [&](int call) {
    PyramidsOnDevice& set = pyramids.of_call(call);
    update_pyramids_cuda(bench.get(), set.view(), 0, changed.data(), count, set.done());
  };
  Image canvas = pyramids.of(0);
  edit(canvas, tiles);
  PyramidsOnDevice& first = pyramids.sets.front();
  upload_canvas_cuda(bench.get(), first.view(), 0, canvas.rgb.data());
  update(0);
  const bool verified = same_levels(bench, first.view(), 0, pyramid_of_cpu(bench, canvas, kLevels));
  const double ms = bench.ms_of(static_cast<int>(pyramids.sets.size()), update);
  const double whole_ms = build_ms(bench, pyramids, PyramidLoads::kDirect);
  const double share = static_cast<double>(count) / static_cast<double>(grid.cells());
  bench.add(verified, {"pyramid/update/1of20", ms, "ms",
                       limit_of(pyramids.bytes() * share, bench.ceilings.copy_bytes_per_ms),
                       text_of("%d of %d tiles, %.1f %% of a build", count,
                               static_cast<int>(grid.cells()), 100 * ms / whole_ms)});
}

#if !defined(FOVEA_EMULATE)

// Some pixels of each level against the CPU's. Every level may round a mean the other way, and the
// units' weights have 8 bits.
bool same_texture(CudaBench& bench, const PyramidTexture& texture, const Image& picture) {
  constexpr int kPoints = 4096;
  const auto expected = pyramid_of_cpu(bench, picture, texture.levels());
  if (!expected) return false;
  std::mt19937 random(3);
  std::vector<SamplePoint> points;
  std::vector<const uint8_t*> pixels;
  for (int i = 0; i < kPoints; ++i) {
    const int level = i % texture.levels();
    const LevelView view = expected->level(level);
    const auto x = static_cast<int>(random() % static_cast<uint32_t>(view.size.width_px));
    const auto y = static_cast<int>(random() % static_cast<uint32_t>(view.size.height_px));
    const auto span = static_cast<float>(1 << level);
    points.push_back({0, (static_cast<float>(x) + 0.5f) * span,
                      (static_cast<float>(y) + 0.5f) * span, static_cast<float>(level)});
    pixels.push_back(view.row(y) + 3 * x);
  }
  DeviceMemory<SamplePoint> where;
  DeviceMemory<float> rgb;
  if (!bench.upload(where, points) || !bench.make(rgb, 3 * points.size())) return false;
  texture.sample(bench.get(), where.data(), kPoints, rgb.data());
  const auto got = bench.on_host(rgb.data(), rgb.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t pixel = i / 3;
    if (std::abs(got[i] - static_cast<float>(pixels[pixel][i % 3])) > 1 + points[pixel].level)
      return false;
  }
  return true;
}

void bench_texture(CudaBench& bench, BenchPyramids& pyramids) {
  PyramidTexture textures[2];
  for (PyramidTexture& texture : textures) {
    if (!bench.check(texture.make(kLarge, 1, kLevels))) break;
    upload_canvas_cuda(bench.get(), pyramids.sets.front().view(), 0, pyramids.of(0).rgb.data());
    texture.fill(bench.get(), pyramids.sets.front().view(), 1);
    texture.build(bench.get());
  }
  if (!bench.good()) return;
  const bool verified = same_texture(bench, textures[0], pyramids.of(0));
  const double ms = bench.ms_of(2, [&](int call) { textures[call % 2].build(bench.get()); });
  const double bytes = pyramids.bytes() / 3 * 4;  // RGBA
  const auto limit = limit_of(bytes, bench.ceilings.copy_bytes_per_ms);
  bench.add(verified, {"pyramid/texture/4096x4096x5", ms, "ms", limit,
                       text_of("RGBA, a launch for each level; %.0f %% of copy; one texture kernel "
                               "a level took 0.044 ms elsewhere",
                               percent_of(limit, ms))});
}

#endif

void run_large(CudaBench& bench) {
  BenchPyramids pyramids;
  if (!pyramids.make(bench, kLarge, 1, kLevels, kSets, noise)) return;
  bench_build(bench, pyramids, "pyramid/4096x4096x5", "wanted <= 0.030 ms");
  bench_update(bench, pyramids);
#if !defined(FOVEA_EMULATE)
  bench_texture(bench, pyramids);
#endif
}

void run_batch(CudaBench& bench) {
  BenchPyramids pyramids;
  if (!pyramids.make(bench, kSquare, kBatch, 0, kEmulated ? 1 : 2, noise)) return;
  bench_build(bench, pyramids, "pyramid/32x1024x1024", "wanted >= 80 % of 4300 GB/s");
}

const CudaBenchRegistration kLargeRows(kKernelPhase, "pyramid/4096x4096", run_large);
const CudaBenchRegistration kBatchRows(kKernelPhase, "pyramid/32x1024x1024", run_batch);

}  // namespace
}  // namespace fovea
