// SPDX-License-Identifier: Apache-2.0
#include "relevance/salience.h"

namespace fovea {
namespace {

// The sum over (2 radius + 1)^2 pixels; those outside the picture are its nearest ones.
Plane box_sum(const Plane& plane, int radius) {
  Plane sums(plane.size);
  for (int y = 0; y < plane.size.height_px; ++y)
    for (int x = 0; x < plane.size.width_px; ++x)
      for (int v = y - radius; v <= y + radius; ++v)
        for (int u = x - radius; u <= x + radius; ++u)
          sums.row(y)[x] += plane.row(std::clamp(
              v, 0, plane.size.height_px - 1))[std::clamp(u, 0, plane.size.width_px - 1)];
  return sums;
}

}  // namespace

Map measure_salience_reference(const Pyramid& pyramid, const SalienceParams& params) {
  const int work = salience_work_level(pyramid);
  const int finer = std::max(0, work - 2);
  const LevelView level = pyramid.level(work);
  const Plane texture = measure_texture_reference(pyramid.level(finer), 1 << (work - finer));
  const Plane around = box_sum(texture, 1);
  std::vector<ChannelValues> channels;
  for (int y = 0; y < level.size.height_px; ++y)
    for (int x = 0; x < level.size.width_px; ++x)
      set_channels(level.row(y) + 3 * x, around.row(y)[x], channels.emplace_back());
  const Plane figure = measure_figure_reference(level.size, channels);
  return combine_salience(box_sum(box_sum(figure, 2), 2), box_sum(box_sum(texture, 2), 2), work,
                          pyramid.canvas(), params);
}

}  // namespace fovea
