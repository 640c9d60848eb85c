// SPDX-License-Identifier: Apache-2.0
// The small verbs of the public surface.
#include "device/device.h"
#include "fovea/fovea.h"
#include "gaze/gaze.h"
#include "media/decode.h"
#include "media/encode_png.h"
#include "pyramid/canvas.h"

namespace fovea {

const char* version() { return FOVEA_VERSION; }

std::vector<Device> devices() { return list_devices(); }

Limits limits() {
  return {.max_pixels = kDefaultMaxPixels,
          .max_side_ratio = kMaxSideRatio,
          .budget_tokens = kDefaultBudgetTokens,
          .uniform_pixels = CanvasLimits{}.max_pixels};
}

std::vector<PlanKind> plan_kinds() {
  std::vector<PlanKind> kinds;
  for (const PlanMaker& maker : plan_makers()) kinds.push_back({maker.name, maker.description});
  return kinds;
}

Result<Map> load_map(const std::string& path) {
  const auto image = read_image(path);
  if (!image) return image.error();
  Map map(Grid{image->size.height_px, image->size.width_px});
  for (size_t i = 0; i < map.score.size(); ++i) {
    const uint8_t* rgb = &image->rgb[3 * i];
    // Rec. 601 luma in 16.16 fixed point, 255 -> 65535.
    const uint32_t luma = 19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2];
    map.score[i] = static_cast<uint16_t>((uint64_t{luma} * 257 + 32768) >> 16);
  }
  return map;
}

Status save_png(const std::string& path, const Image& image) { return write_png(path, image); }
Status save_png(const std::string& path, const Map& map) { return write_png(path, map); }

}  // namespace fovea
