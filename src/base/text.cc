// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace fovea {

std::string with_commas(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

namespace {

// The length of the UTF-8 character at the front, 0 where there is none: surrogates, overlong forms
// and values over U+10FFFF are none.
size_t utf8_character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto follows = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const uint8_t low = first == 0xE0 ? 0xA0 : 0x80;
    const uint8_t high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const uint8_t low = first == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = utf8_character_bytes(text.substr(at));
    const auto first = static_cast<uint8_t>(text[at]);
    const bool printable = bytes > 1 || (bytes == 1 && first >= 0x20 && first != 0x7F);
    result += printable ? std::string(text.substr(at, bytes)) : fmt::format("\\x{:02x}", first);
    at += printable ? bytes : 1;
  }
  return result;
}

}  // namespace

size_t utf8_valid_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = ~uint64_t{0};
    if (at + sizeof eight <= text.size()) std::memcpy(&eight, text.data() + at, sizeof eight);
    if ((eight & 0x8080808080808080u) == 0) {  // eight ASCII characters at once
      at += sizeof eight;
      continue;
    }
    const size_t bytes = utf8_character_bytes(text.substr(at));
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 100;
  constexpr size_t kKept = 48;  // bytes at each end of a longer text
  if (text.size() <= kLongest) return '"' + escaped(text) + '"';
  const auto inside_character = [&](size_t at) { return (text[at] & 0xC0) == 0x80; };
  size_t front = kKept;
  while (front > kKept - 4 && inside_character(front)) --front;
  size_t back = text.size() - kKept;
  while (back < text.size() - kKept + 4 && inside_character(back)) ++back;
  return '"' + escaped(text.substr(0, front)) + "..." + escaped(text.substr(back)) + '"';
}

}  // namespace fovea
