// SPDX-License-Identifier: Apache-2.0
#include "language/template/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "language/template/value.h"
#include "language/tokenizer/unicode.h"

namespace fovea::jinja {
namespace {

// Calls visit(code point, its bytes) for every character.
template <class Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = read_code_point(text.data() + i);
    visit(c.value, text.substr(i, c.bytes));
    i += c.bytes;
  }
}

uint32_t upper_of(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
uint32_t lower_of(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool in_set(std::string_view character, std::optional<std::string_view> set) {
  if (!set) return is_space(read_code_point(character.data()).value);
  return set->find(character) != std::string_view::npos;
}

std::vector<std::string> split_by_spaces(std::string_view text, int64_t max) {
  std::vector<std::string> parts;
  std::string_view rest = strip(text, std::nullopt, true, false);
  while (!rest.empty()) {
    if (max >= 0 && static_cast<int64_t>(parts.size()) >= max) {
      parts.emplace_back(strip(rest, std::nullopt, false, true));
      break;
    }
    size_t end = 0;
    while (end < rest.size()) {
      const CodePoint c = read_code_point(rest.data() + end);
      if (is_space(c.value)) break;
      end += c.bytes;
    }
    parts.emplace_back(rest.substr(0, end));
    rest = strip(rest.substr(end), std::nullopt, true, false);
  }
  return parts;
}

// The two-character escapes that repr and JSON share.
const char* short_escape(uint32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      return nullptr;
  }
}

}  // namespace

bool is_space(uint32_t c) { return (char_classes()[c] & kSpace) != 0 || (c >= 0x1C && c <= 0x1F); }

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  for_each_character(text, [&](uint32_t, std::string_view bytes) { all.emplace_back(bytes); });
  return all;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string_view strip(std::string_view text, std::optional<std::string_view> set, bool left,
                       bool right) {
  while (left && !text.empty()) {
    const std::string_view first = text.substr(0, read_code_point(text.data()).bytes);
    if (!in_set(first, set)) break;
    text.remove_prefix(first.size());
  }
  while (right && !text.empty()) {
    const std::string_view last = text.substr(previous_code_point(text, text.size()));
    if (!in_set(last, set)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

std::string upper(std::string_view text) {
  std::string out;
  for_each_character(text, [&](uint32_t c, std::string_view) { append_utf8(out, upper_of(c)); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_each_character(text, [&](uint32_t c, std::string_view) { append_utf8(out, lower_of(c)); });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for_each_character(text, [&](uint32_t c, std::string_view) {
    append_utf8(out, out.empty() ? upper_of(c) : lower_of(c));
  });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for_each_character(text, [&](uint32_t c, std::string_view) {
    append_utf8(out, in_word ? lower_of(c) : upper_of(c));
    in_word = (char_classes()[c] & kLetter) != 0;
  });
  return out;
}

std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator,
                               int64_t max) {
  if (!separator) return split_by_spaces(text, max);
  if (separator->empty()) fail("split takes a separator that is not empty");
  std::vector<std::string> parts;
  size_t begin = 0;
  while (max < 0 || static_cast<int64_t>(parts.size()) < max) {
    const size_t end = text.find(*separator, begin);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + separator->size();
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    if (!text.empty()) text.remove_prefix(text.substr(0, 2) == "\r\n" ? 2 : 1);
  }
  return lines;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t max) {
  std::string out;
  int64_t left = max < 0 ? INT64_MAX : max;
  const auto put = [&] {
    if (left-- > 0) out += to;
    Budget::check_text(out.size());
  };
  if (from.empty()) {  // between all characters, and at both ends
    put();
    for_each_character(text, [&](uint32_t, std::string_view bytes) {
      out += bytes;
      put();
    });
    return out;
  }
  size_t begin = 0;
  for (size_t found = text.find(from); found != std::string_view::npos && left > 0;
       found = text.find(from, begin)) {
    out += text.substr(begin, found - begin);
    put();
    begin = found + from.size();
  }
  return out.append(text.substr(begin));
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
    Budget::check_text(out.size());
  }
  return out;
}

std::string repeat(std::string_view text, int64_t times) {
  std::string out;
  if (text.empty() || times <= 0) return out;
  if (static_cast<uint64_t>(times) > Budget::kMaxTextBytes) Budget::check_text(SIZE_MAX);
  Budget::check_text(text.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) out += text;
  return out;
}

std::vector<size_t> slice_indices(size_t size, std::optional<int64_t> start,
                                  std::optional<int64_t> stop, int64_t step) {
  if (step == 0) fail("a slice's step cannot be 0");
  const auto count = static_cast<int64_t>(size);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? count : count - 1;
  const auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    return std::clamp(*at < 0 ? *at + count : *at, low, high);
  };
  const int64_t begin = place(start, step > 0 ? low : high);
  const int64_t end = place(stop, step > 0 ? high : low);
  std::vector<size_t> indices;
  const auto before_end = [&](int64_t i) { return step > 0 ? i < end : i > end; };
  for (int64_t i = begin; before_end(i); i += step) {
    indices.push_back(static_cast<size_t>(i));
    if (step > count || step < -count) break;  // the next one would lie outside, or overflow
  }
  return indices;
}

std::string repr_quoted(std::string_view text) {
  const bool apostrophe = text.find('\'') != std::string_view::npos;
  const char quote = apostrophe && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for_each_character(text, [&](uint32_t c, std::string_view bytes) {
    const bool is_quote = c == static_cast<uint32_t>(quote);
    const bool hidden = c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD;
    if (const char* escape = short_escape(c); escape != nullptr) {
      out += escape;
    } else if (hidden) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out.append(is_quote ? "\\" : "").append(bytes);
    }
  });
  return out += quote;
}

std::string json_quoted(std::string_view text, bool ascii) {
  std::string out = "\"";
  for_each_character(text, [&](uint32_t c, std::string_view bytes) {
    if (const char* escape = short_escape(c); escape != nullptr) {
      out += escape;
    } else if (c == '"') {
      out += "\\\"";
    } else if (c == '\b' || c == '\f') {
      out += c == '\b' ? "\\b" : "\\f";
    } else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) {
      out += c == 0x7F ? "\x7F" : fmt::format("\\u{:04x}", c);
    } else if (ascii && c >= 0x10000) {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
    } else {
      out += bytes;
    }
  });
  return out += '"';
}

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  // Python writes the fewest digits that read back the same, plainly from 1e-4 to below 1e16.
  const double size = std::fabs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace fovea::jinja
