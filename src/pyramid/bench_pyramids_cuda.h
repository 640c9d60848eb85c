// SPDX-License-Identifier: Apache-2.0
// Pyramids of pictures on the device, for benches.
#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "device/cuda/gpu_bench.h"
#include "pyramid/pyramid_cuda.h"

namespace fovea {

// A batch of pictures of one size: four of them, one after the other, in several sets of memory, so
// that none is found in the second cache when its turn comes again.
struct BenchPyramids {
  static constexpr int kPictures = 4;

  std::vector<Image> pictures;
  std::vector<PyramidsOnDevice> sets;

  // Level 0 of each is the picture, the others are built.
  bool make(CudaBench& bench, Size canvas, int images, int levels, int set_count,
            const std::function<Image(Size, uint32_t seed)>& picture) {
    for (uint32_t seed = 0; seed < kPictures; ++seed) pictures.push_back(picture(canvas, seed));
    for (int set = 0; set < set_count; ++set) {
      sets.emplace_back();
      PyramidsOnDevice& made = sets.back();
      if (!bench.check(made.make(canvas, images, levels))) return false;
      for (int i = 0; i < images; ++i)
        upload_canvas_cuda(bench.get(), made.view(), i, of(i).rgb.data());
      build_pyramids_cuda(bench.get(), made.view(), made.done());
      if (!bench.check(bench.stream().wait())) return false;
    }
    return true;
  }
  const Image& of(int image) const { return pictures[static_cast<size_t>(image % kPictures)]; }
  PyramidsOnDevice& of_call(int call) { return sets[static_cast<size_t>(call) % sets.size()]; }

  // Level 0 and what is made of it.
  double bytes() const {
    const DevicePyramids view = sets.front().view();
    double pixels = 0;
    for (int level = 0; level < view.levels; ++level) pixels += pixels_at(view.canvas, level);
    return 3.0 * pixels * view.images;
  }
  static double pixels_at(Size canvas, int level) {
    const int step = 1 << level;
    const int64_t width = (canvas.width_px + step - 1) / step;
    const int64_t height = (canvas.height_px + step - 1) / step;
    return static_cast<double>(width * height);
  }
};

// The CPU's pyramid of a picture; none where the program does not lend the function.
inline std::optional<Pyramid> pyramid_of_cpu(CudaBench& bench, const Image& picture, int levels) {
  const auto build =
      reinterpret_cast<decltype(&build_pyramid)>(bench.report().of_cpu("build_pyramid"));
  if (build == nullptr) return std::nullopt;
  return build(bench.report().threads(), picture, levels);
}

// Whether all levels of one image are the CPU's.
inline bool same_levels(CudaBench& bench, const DevicePyramids& got, int image,
                        const std::optional<Pyramid>& expected) {
  if (!expected || got.levels != expected->levels()) return false;
  for (int index = 0; index < got.levels; ++index) {
    const LevelView level = expected->level(index);
    const auto rgb = bench.on_host(got.rgb[index] + image * got.image_bytes[index],
                                   static_cast<size_t>(got.image_bytes[index]));
    for (int y = 0; y < level.size.height_px; ++y)
      if (std::memcmp(rgb.data() + y * got.stride_bytes[index], level.row(y),
                      static_cast<size_t>(3 * level.size.width_px)) != 0)
        return false;
  }
  return true;
}

}  // namespace fovea
