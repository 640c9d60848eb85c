// SPDX-License-Identifier: Apache-2.0
// The small verbs of the public surface.
#include "base/out_of_memory.h"
#include "device/device.h"
#include "engine/see_parts.h"
#include "fovea/fovea.h"
#include "gaze/gaze.h"
#include "media/decode.h"
#include "media/encode_png.h"
#include "memory/forget/policies.h"
#include "ops/attention/sparse/kinds.h"
#include "ops/key_format.h"
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
  for (const PlanMaker& maker : plan_makers())
    kinds.push_back({std::string(maker.name()), maker.description});
  return kinds;
}

std::vector<AttentionChoice> attention_choices() {
  std::vector<AttentionChoice> choices;
  for (const AttentionKindRow& row : attention_kinds()) {
    AttentionChoice& choice = choices.emplace_back();
    choice.name = row.name;
    choice.of_tower = row.patch_words != nullptr;
    choice.of_text = row.token_words != nullptr;
    if (choice.of_tower) choice.description = std::string("a patch sees ") + row.patch_words;
    if (choice.of_text)
      choice.description +=
          std::string(choice.of_tower ? "; " : "") + "a token sees " + row.token_words;
  }
  return choices;
}

std::vector<ForgetChoice> forget_choices() {
  std::vector<ForgetChoice> choices;
  for (const ForgetPolicyRow& row : forget_policies()) choices.push_back({row.name, row.words});
  return choices;
}

std::vector<KvChoice> kv_choices() {
  std::vector<KvChoice> choices;
  for (const KeyFormatRow& row : key_formats()) choices.push_back({row.name, row.words});
  return choices;
}

Result<Image> load_image(const std::string& path, int64_t max_pixels) {
  return within_memory(
      [&] { return read_image(path, image_limits_of({.max_pixels = max_pixels})); });
}

Result<Image> load_image(std::span<const uint8_t> file_bytes, int64_t max_pixels) {
  return within_memory([&] {
    return decode_image(file_bytes, "the image", image_limits_of({.max_pixels = max_pixels}));
  });
}

Result<Map> load_map(const std::string& path) {
  return within_memory([&]() -> Result<Map> {
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
  });
}

Status save_png(const std::string& path, const Image& image) {
  return within_memory([&] { return write_png(path, image); });
}
Status save_png(const std::string& path, const Map& map) {
  return within_memory([&] { return write_png(path, map); });
}

}  // namespace fovea
