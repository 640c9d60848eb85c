// SPDX-License-Identifier: Apache-2.0
// Pictures as Python has them: paths, bytes, PIL images, arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fovea/fovea.h"

namespace fovea::python {

struct PicturePath {
  std::string path;
};
using PictureBytes = std::vector<uint8_t>;  // of a file
// What is left to do without Python's lock; nothing in it is Python's.
using Picture = std::variant<PicturePath, PictureBytes, Image>;

// Raises where it is none; what its bytes or its file hold is not looked at. Needs Python's lock.
Picture picture_of(nanobind::handle object);

// Decodes it. Without Python's lock.
Result<Image> load(Picture picture, int64_t max_pixels);
Status add_to(Session& session, Picture picture, int64_t max_pixels);

}  // namespace fovea::python
