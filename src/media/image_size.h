// SPDX-License-Identifier: Apache-2.0
// How large an image is, before it is decoded.
#pragma once

#include <cstdint>
#include <span>

#include "fovea/result.h"
#include "fovea/words.h"
#include "media/decode.h"

namespace fovea {

// What the header says, within the limits; no pixel is looked at, and no memory is taken for any.
Result<Size> image_size(std::span<const uint8_t> bytes, const ImageLimits& limits = {});

}  // namespace fovea
