// SPDX-License-Identifier: Apache-2.0
#include "fovea/picture_url.h"

#include <algorithm>
#include <string_view>

namespace fovea::app {
namespace {

const char* media_type(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("\x89PNG")) return "image/png";
  return "image/webp";
}

std::string base64_of(std::string_view bytes) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t here = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < here ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= here ? kLetters[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string picture_url(std::span<const uint8_t> bytes) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::string("data:") + media_type(file) + ";base64," + base64_of(file);
}

}  // namespace fovea::app
