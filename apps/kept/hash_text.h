// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace fovea::kept {

// FNV-1a, for fingerprints and for seeds that belong to a text.
inline uint64_t hash_text(std::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (const char byte : text) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace fovea::kept
