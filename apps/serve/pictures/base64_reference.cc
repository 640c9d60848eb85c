// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "serve/pictures/base64.h"

namespace fovea::serve {
namespace {

constexpr std::array<uint8_t, 256> kSextets = [] {
  std::array<uint8_t, 256> sextets{};
  sextets.fill(64);
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kPlain.size(); ++i)
    sextets[static_cast<uint8_t>(kPlain[i])] = static_cast<uint8_t>(i);
  sextets['-'] = 62;
  sextets['_'] = 63;
  return sextets;
}();

}  // namespace

uint8_t sextet_of(char c) { return kSextets[static_cast<uint8_t>(c)]; }

size_t decode_base64_reference(std::string_view text, uint8_t* bytes) {
  uint32_t held = 0;
  int bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t sextet = sextet_of(text[i]);
    if (sextet == 64) return i;
    held = held << 6 | sextet;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    *bytes++ = static_cast<uint8_t>(held >> bits);
  }
  return text.size();
}

}  // namespace fovea::serve
