// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weights/config.h"
#include "weights/json_fields.h"

namespace fovea {
namespace {

constexpr const char* kFlatName = "preprocessor_config.json";
constexpr const char* kNestedName = "processor_config.json";
constexpr int64_t kMaxFileBytes = 1 << 20;

// A tiny image is enlarged to the lower limit, so a hostile one must not make it huge: this is
// 4,096 cells, 64 times what Qwen3-VL's own limit comes to. People set 1,310,720 and less.
constexpr int64_t kMostMinPixels = 4'194'304;
constexpr int64_t kMostMaxPixels = INT32_MAX;

// Settings that the front end has built in.
void check_fixed(JsonFields& fields) {
  fields.require("patch_size", 16);
  fields.require("temporal_patch_size", 2);
  fields.require("merge_size", 2);
  fields.require("resample", 3);
  for (const char* key : {"do_resize", "do_rescale", "do_normalize"})
    if (!fields.boolean(key, true)) fields.refuse(key, "is false; only true is supported");
  if (std::abs(fields.real("rescale_factor", 0, 1, 1.0 / 255) - 1.0 / 255) > 1e-9)
    fields.refuse("rescale_factor",
                  fmt::format("is {}; only 1/255 is supported", fields.shown("rescale_factor")));
  for (const char* key : {"image_mean", "image_std"}) {
    if (!fields.has(key)) continue;
    const std::vector<double> values = fields.reals(key, 3);
    if (values != std::vector<double>{0.5, 0.5, 0.5})
      fields.refuse(key,
                    fmt::format("is {}; only [0.5, 0.5, 0.5] is supported", fields.shown(key)));
  }
}

}  // namespace

Result<ProcessorConfig> parse_processor_config(const std::string& file, std::string_view text) {
  const auto json = parse_settings(file, text);
  if (!json) return json.error();
  JsonFields outer(file, *json);
  JsonFields fields = outer.has("image_processor") ? outer.object("image_processor", true) : outer;
  check_fixed(fields);
  // The limits are pixels in spite of their names; min_pixels and max_pixels are the older form and
  // go before the newer one, as they do in transformers.
  JsonFields size = fields.object("size", false);
  ProcessorConfig config;
  const int64_t least = size.integer("shortest_edge", 1, kMostMinPixels, 56 * 56);
  const int64_t most = size.integer("longest_edge", 1, kMostMaxPixels, 28 * 28 * 1280);
  config.min_pixels = fields.integer("min_pixels", 1, kMostMinPixels, least);
  config.max_pixels = fields.integer("max_pixels", 1, kMostMaxPixels, most);
  if (config.min_pixels > config.max_pixels)
    fields.refuse("size", fmt::format("has a lower limit of {} pixels, above the upper one of {}",
                                      config.min_pixels, config.max_pixels));
  if (fields.error()) return *fields.error();
  return config;
}

Result<ProcessorConfig> read_processor_config(const ModelFolder& folder) {
  // As in transformers: the newer file where it holds the image processor, else the older one.
  for (const char* name : {kNestedName, kFlatName}) {
    if (!folder.has(name)) continue;
    const Result<std::string> text = folder.read(name, kMaxFileBytes);
    if (!text) return text.error();
    if (name == kNestedName) {
      const auto json = parse_settings(name, *text);
      if (!json) return json.error();
      if (!json->contains("image_processor")) continue;
    }
    return parse_processor_config(name, *text);
  }
  return ProcessorConfig{};
}

}  // namespace fovea
