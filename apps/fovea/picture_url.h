// SPDX-License-Identifier: Apache-2.0
// A picture's file as a data URL, for traces that show it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fovea::app {

// `bytes`: a JPEG, PNG or WebP file that was decoded before.
std::string picture_url(std::span<const uint8_t> bytes);

}  // namespace fovea::app
