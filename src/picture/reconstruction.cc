// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/check.h"
#include "picture/panels.h"
#include "picture/picture.h"

namespace fovea {

Image draw_reconstruction(Threads& threads, const Pyramid& pyramid, const Plan& plan, Size size) {
  FOVEA_CHECK(size.width_px >= 1 && size.height_px >= 1);
  Image image(size);
  const Size canvas = pyramid.canvas();
  const std::array views{View{{0, 0, canvas.width_px, canvas.height_px}, bounds(image)}};
  draw_tower_panel(threads, pyramid, plan, find_finest(plan, canvas), views, image);
  return image;
}

}  // namespace fovea
