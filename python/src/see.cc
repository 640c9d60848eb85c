// SPDX-License-Identifier: Apache-2.0
// Looking without a model: see, plan and patches.
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "answer.h"
#include "arrays.h"
#include "engine/see_patches.h"
#include "errors.h"
#include "lock.h"
#include "module.h"
#include "options.h"
#include "pictures.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

nb::object see_picture(nb::handle picture, const nb::dict& keywords) {
  Picture source = picture_of(picture);
  const SeeKeywords see_keys = see_keywords(keywords);
  std::optional<Result<Sight>> seen;
  {
    const Released released;
    if (const auto* path = std::get_if<PicturePath>(&source)) {
      seen.emplace(see(path->path, see_keys.options));
    } else if (const auto* bytes = std::get_if<PictureBytes>(&source)) {
      seen.emplace(see(*bytes, see_keys.options));
    } else {
      seen.emplace(see(std::move(std::get<Image>(source)), see_keys.options));
    }
  }
  return sight_object(std::make_shared<Sight>(value_or_raise(*std::move(seen))));
}

// (image, canvas, plan, fixations, values, positions, levels); without `sample` the last are None.
nb::object patches_of_picture(nb::handle picture, const nb::dict& keywords, bool sample) {
  Picture source = picture_of(picture);
  const SeeKeywords see_keys = see_keywords(keywords);
  struct Made {
    std::optional<SeenPatches> seen;
    std::vector<float> positions;  // [patches][row, col]
    std::vector<int> levels;
  };
  const auto made = std::make_shared<Made>();
  std::optional<Error> error;
  {
    const Released released;
    auto image = load(std::move(source), see_keys.options.max_pixels);
    if (!image) {
      error = image.error();
    } else {
      auto seen = see_patches(*std::move(image), see_keys.options,
                              see_keys.plan ? &*see_keys.plan : nullptr, sample);
      if (seen)
        made->seen.emplace(*std::move(seen));
      else
        error = seen.error();
    }
    if (!error)
      for (const PatchPlace& place : made->seen->patches.places) {
        made->positions.push_back(place.row);
        made->positions.push_back(place.col);
        made->levels.push_back(place.level);
      }
  }
  if (error) raise(*error);
  SeenPatches& seen = *made->seen;
  const nb::capsule owner = keeper(made);
  const auto count = static_cast<size_t>(seen.patches.count);
  nb::object values = nb::none();
  nb::object positions = nb::none();
  nb::object levels = nb::none();
  if (sample) {
    values = array_of(seen.patches.f32.data(), {count, kPatchValues}, owner);
    positions = array_of(made->positions.data(), {count, 2}, owner);
    levels = array_of(made->levels.data(), {count}, owner);
  }
  const nb::module_ words = nb::module_::import_("fovea.words");
  return nb::make_tuple(size_tuple(seen.image), size_tuple(seen.canvas),
                        plan_object(words, seen.plan, seen.canvas, owner),
                        points_array(seen.fixations, owner), values, positions, levels);
}

// (image, canvas, plan, glance tokens, crops)
nb::object crops_of_picture(nb::handle picture, const nb::dict& keywords) {
  Picture source = picture_of(picture);
  const SeeKeywords see_keys = see_keywords(keywords);
  std::optional<Result<SeenCrops>> made;
  {
    const Released released;
    auto image = load(std::move(source), see_keys.options.max_pixels);
    if (image)
      made.emplace(see_crops(*std::move(image), see_keys.options));
    else
      made.emplace(image.error());
  }
  const auto seen = std::make_shared<SeenCrops>(value_or_raise(*std::move(made)));
  static_assert(sizeof(Area) == 4 * sizeof(int));  // x, y, width, height
  const nb::capsule owner = keeper(seen);
  int* const crops = seen->crops.empty() ? nullptr : &seen->crops[0].x_px;
  const nb::module_ words = nb::module_::import_("fovea.words");
  return nb::make_tuple(size_tuple(seen->image), size_tuple(seen->canvas),
                        plan_object(words, seen->plan, seen->canvas, owner), seen->glance_tokens,
                        array_of(crops, {seen->crops.size(), 4}, owner));
}

nb::list device_names() {
  std::vector<Device> found;
  {
    const Released released;
    found = devices();
  }
  nb::list list;
  for (const Device& device : found) list.append(nb::make_tuple(device.name, device.description));
  return list;
}

nb::list plan_names() {
  nb::list list;
  for (const PlanKind& kind : plan_kinds())
    list.append(nb::make_tuple(kind.name, kind.description));
  return list;
}

nb::object read_picture(nb::handle picture, int64_t max_pixels) {
  Picture source = picture_of(picture);
  std::optional<Result<Image>> image;
  {
    const Released released;
    image.emplace(load(std::move(source), max_pixels));
  }
  const auto kept = std::make_shared<Image>(value_or_raise(*std::move(image)));
  return image_array(*kept, keeper(kept));
}

nb::object read_map(const std::string& path) {
  std::optional<Result<Map>> map;
  {
    const Released released;
    map.emplace(load_map(path));
  }
  const auto kept = std::make_shared<Map>(value_or_raise(*std::move(map)));
  return map_array(*kept, keeper(kept));
}

}  // namespace

void add_see(nb::module_& module) {
  module.def("see", &see_picture, nb::arg("picture"), nb::arg("keywords"));
  module.def("patches", &patches_of_picture, nb::arg("picture"), nb::arg("keywords"),
             nb::arg("sample"));
  module.def("crops", &crops_of_picture, nb::arg("picture"), nb::arg("keywords"));
  module.def("devices", &device_names);
  module.def("plan_kinds", &plan_names);
  module.def("load_image", &read_picture, nb::arg("picture"), nb::arg("max_pixels"));
  module.def("load_map", &read_map, nb::arg("path"));
}

}  // namespace fovea::python
