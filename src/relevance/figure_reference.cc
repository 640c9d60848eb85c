// SPDX-License-Identifier: Apache-2.0
#include "relevance/figure.h"

namespace fovea {
namespace {

// Clears from `inside` all that is connected with the border.
void flood_from_border(Size size, std::vector<uint8_t>& inside) {
  std::vector<int> queue;
  const auto visit = [&](int x, int y) {
    if (x < 0 || y < 0 || x >= size.width_px || y >= size.height_px) return;
    const int p = y * size.width_px + x;
    if (inside[static_cast<size_t>(p)] == 0) return;
    inside[static_cast<size_t>(p)] = 0;
    queue.push_back(p);
  };
  for (int y = 0; y < size.height_px; ++y)
    for (int x = 0; x < size.width_px; ++x)
      if (x == 0 || y == 0 || x == size.width_px - 1 || y == size.height_px - 1) visit(x, y);
  while (!queue.empty()) {
    const int x = queue.back() % size.width_px;
    const int y = queue.back() / size.width_px;
    queue.pop_back();
    visit(x - 1, y);
    visit(x + 1, y);
    visit(x, y - 1);
    visit(x, y + 1);
  }
}

}  // namespace

Plane measure_figure_reference(Size size, const std::vector<ChannelValues>& channels) {
  Plane plane(size);
  std::vector<uint8_t> inside(channels.size());
  for (size_t channel = 0; channel < kFigureChannels; ++channel) {
    for (int threshold = 0; threshold < 255; ++threshold) {
      for (const bool above : {true, false}) {
        for (size_t p = 0; p < inside.size(); ++p)
          inside[p] = (channels[p][channel] > threshold) == above ? 1 : 0;
        flood_from_border(size, inside);
        const auto n = std::count(inside.begin(), inside.end(), uint8_t{1});
        if (n == 0) continue;
        for (size_t p = 0; p < inside.size(); ++p) plane.value[p] += inside[p] * figure_weight(n);
      }
    }
  }
  return plane;
}

}  // namespace fovea
