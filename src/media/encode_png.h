// SPDX-License-Identifier: Apache-2.0
// media: pictures and maps -> PNG bytes and files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea {

std::vector<uint8_t> encode_png(const Image& image);  // 8-bit RGB
std::vector<uint8_t> encode_png(const Map& map);      // 16-bit gray, one pixel a cell

// Whole or not at all, as fovea/new_file.h has it; "-" is stdout.
Status write_png(const std::string& path, const Image& image);
Status write_png(const std::string& path, const Map& map);

}  // namespace fovea
