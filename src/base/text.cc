// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/format.h>

#include <array>

#include "base/utf8.h"

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

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 100;
  constexpr size_t kKept = 48;  // bytes at each end of a longer text
  if (text.size() <= kLongest) return '"' + printable(text) + '"';
  const auto inside_character = [&](size_t at) { return (text[at] & 0xC0) == 0x80; };
  size_t front = kKept;
  while (front > kKept - 4 && inside_character(front)) --front;
  size_t back = text.size() - kKept;
  while (back < text.size() - kKept + 4 && inside_character(back)) ++back;
  return '"' + printable(text.substr(0, front)) + "..." + printable(text.substr(back)) + '"';
}

}  // namespace fovea
