// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "picture/text.h"

namespace fovea {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Lead {
  int following = -1;  // bytes that must follow; -1: no such lead
  char32_t bits = 0;
  uint8_t low = 0x80;  // range of the second byte: keeps out overlong forms and surrogates
  uint8_t high = 0xBF;
};

Lead read_lead(uint8_t byte) {
  if (byte < 0x80) return {0, byte};
  if (byte >= 0xC2 && byte <= 0xDF) return {1, static_cast<char32_t>(byte & 0x1F)};
  if (byte == 0xE0) return {2, 0, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0xD, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, static_cast<char32_t>(byte & 0x0F)};
  if (byte == 0xF0) return {3, 0, 0x90, 0xBF};
  if (byte == 0xF4) return {3, 4, 0x80, 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, static_cast<char32_t>(byte & 0x07)};
  return {};
}

// One code point from the front of `bytes`; `used` says how many bytes it took.
char32_t next_code_point(std::string_view bytes, size_t& used) {
  const Lead lead = read_lead(static_cast<uint8_t>(bytes[0]));
  used = 1;
  if (lead.following < 0) return kReplacement;
  char32_t code = lead.bits;
  for (int i = 0; i < lead.following; ++i) {
    if (used == bytes.size()) return kReplacement;
    const auto byte = static_cast<uint8_t>(bytes[used]);
    const uint8_t low = i == 0 ? lead.low : 0x80;
    const uint8_t high = i == 0 ? lead.high : 0xBF;
    if (byte < low || byte > high) return kReplacement;
    code = code << 6 | (byte & 0x3F);
    ++used;
  }
  return code;
}

bool only_steers(char32_t code) {
  constexpr std::array<std::pair<char32_t, char32_t>, 7> kRanges{{
      {0x200B, 0x200F},    // zero-width space, joiners, direction marks
      {0x202A, 0x202E},    // direction embeddings
      {0x2060, 0x206F},    // word joiner, isolates
      {0xFE00, 0xFE0F},    // variation selectors
      {0xFEFF, 0xFEFF},    // byte order mark
      {0x1F3FB, 0x1F3FF},  // skin tones
      {0xE0000, 0xE0FFF},  // tags, further variation selectors
  }};
  return std::any_of(kRanges.begin(), kRanges.end(), [code](const auto& range) {
    return code >= range.first && code <= range.second;
  });
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes) {
  std::u32string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    size_t used = 0;
    const char32_t code = next_code_point(bytes, used);
    bytes.remove_prefix(used);
    const bool control =
        code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029;
    if (control) {
      text += U' ';
    } else if (!only_steers(code)) {
      text += code;
    }
  }
  return text;
}

}  // namespace fovea
