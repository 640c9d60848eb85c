// SPDX-License-Identifier: Apache-2.0
// Linked into the devices' libraries too, so it uses the standard library alone.
#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace fovea {
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

uint32_t code_point(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first;
  uint32_t code = first & (0x7Fu >> character.size());
  for (const char next : character.substr(1))
    code = code << 6 | (static_cast<uint8_t>(next) & 0x3F);
  return code;
}

// Control characters, and those that reverse or break a line of text.
bool is_printable(uint32_t code) {
  struct Range {
    uint32_t first, last;
  };
  constexpr std::array kHidden = {
      Range{0x00, 0x1F},     Range{0x7F, 0x9F},     Range{0x61C, 0x61C},  Range{0x200E, 0x200F},
      Range{0x2028, 0x202E}, Range{0x2066, 0x2069}, Range{0xFEFF, 0xFEFF}};
  return std::none_of(kHidden.begin(), kHidden.end(), [=](const Range& range) {
    return code >= range.first && code <= range.last;
  });
}

std::string hexadecimal(uint32_t value, size_t least_digits) {
  std::string digits;
  for (; value != 0 || digits.size() < least_digits; value >>= 4)
    digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
  return digits;
}

bool inside_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

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

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = utf8_character_bytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(bytes, 1));
    const uint32_t code = code_point(character);
    if (bytes > 0 && is_printable(code))
      result += character;
    else if (bytes > 1)
      result += "\\u{" + hexadecimal(code, 4) + "}";
    else
      result += "\\x" + hexadecimal(static_cast<uint8_t>(character[0]), 2);
    text.remove_prefix(character.size());
  }
  return result;
}

std::string printable_line(std::string_view text, size_t most) {
  constexpr std::string_view kGap = " ... ";
  // What is cut away need not be looked at: a character has four bytes at most, so each end holds
  // more of them than are kept.
  std::string ends;
  if (text.size() > 16 * most) {
    ends = std::string(text.substr(0, 8 * most)) + std::string(text.substr(text.size() - 8 * most));
    text = ends;
  }
  std::string line(text);
  for (char& c : line)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  line = printable(line);
  std::vector<size_t> starts;  // of its characters
  for (size_t i = 0; i < line.size(); ++i)
    if (!inside_character(line[i])) starts.push_back(i);
  if (starts.size() <= most) return line;
  const size_t back = (most - kGap.size()) * 2 / 5;  // what to try stands at the end
  const size_t front = most - kGap.size() - back;
  return line.substr(0, starts[front]) + std::string(kGap) +
         line.substr(starts[starts.size() - back]);
}

}  // namespace fovea
