// SPDX-License-Identifier: Apache-2.0
#include "language/template/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "language/tokenizer/unicode.h"

namespace fovea::jinja {
namespace {

// Calls visit(code point, its bytes, where they start) for every character.
template <class Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = read_code_point(text.data() + i);
    Budget::spend(c.bytes);
    visit(c.value, text.substr(i, c.bytes), i);
    i += c.bytes;
  }
}

uint32_t upper_of(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
uint32_t lower_of(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

// Each character becomes change(it, whether it is the first).
template <class Change>
Text changed(const Text& text, const Change& change) {
  Text out;
  std::string one;
  for_each_character(text.view(), [&](uint32_t c, std::string_view, size_t at) {
    one.clear();
    append_utf8(one, change(c, at == 0));
    out.append_from(text, at, one);
  });
  return out;
}

bool in_set(std::string_view character, std::optional<std::string_view> set) {
  if (!set) return is_space(read_code_point(character.data()).value);
  return find(*set, character) != std::string_view::npos;
}

void split_by_spaces(std::string_view text, int64_t max, const OnPart& on_part) {
  std::string_view rest = strip(text, std::nullopt, true, false);
  for (int64_t cuts = 0; !rest.empty(); ++cuts) {
    if (max >= 0 && cuts >= max) return on_part(strip(rest, std::nullopt, false, true));
    size_t end = 0;
    while (end < rest.size()) {
      const CodePoint c = read_code_point(rest.data() + end);
      if (is_space(c.value)) break;
      end += c.bytes;
    }
    Budget::look_at(end);
    on_part(rest.substr(0, end));
    rest = strip(rest.substr(end), std::nullopt, true, false);
  }
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

// The places [start:stop] means, counted from the front.
struct Bounds {
  int64_t begin = 0;
  int64_t end = 0;
};

Bounds bounds_of(size_t size, std::optional<int64_t> start, std::optional<int64_t> stop,
                 int64_t step) {
  if (step == 0) fail("a slice's step cannot be 0");
  const auto count = static_cast<int64_t>(size);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? count : count - 1;
  const auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    return std::clamp(*at < 0 ? *at + count : *at, low, high);
  };
  return {place(start, step > 0 ? low : high), place(stop, step > 0 ? high : low)};
}

}  // namespace

void Text::append(std::string_view bytes, char source) {
  Budget::check_text(bytes_.size() + bytes.size());
  Budget::spend(bytes.size() / 8);
  if (source != SourcedText::kTemplate || !sources_.empty()) {
    sources_.resize(bytes_.size(), SourcedText::kTemplate);
    sources_.append(bytes.size(), source);
  }
  bytes_.append(bytes);
}

void Text::append(const Text& text, size_t begin, size_t size) {
  if (text.sources_.empty()) return append(text.view().substr(begin, size));
  Budget::check_text(bytes_.size() + size);
  Budget::spend(size / 8);
  sources_.resize(bytes_.size(), SourcedText::kTemplate);
  sources_.append(text.sources_, begin, size);
  bytes_.append(text.bytes_, begin, size);
}

Text Text::slice(size_t begin, size_t size) const {
  Text part;
  part.append(*this, begin, size);
  return part;
}

size_t find(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  // Unlike std::string's, this search takes linear time for any part.
  const void* const found =
      memmem(text.data() + from, text.size() - from, part.data(), part.size());
  const size_t at = found == nullptr
                        ? text.size()
                        : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  Budget::look_at(at - from + part.size());
  return found == nullptr ? std::string_view::npos : at;
}

bool is_space(uint32_t c) { return (char_classes()[c] & kSpace) != 0 || (c >= 0x1C && c <= 0x1F); }

size_t count_characters(std::string_view text) {
  Budget::look_at(text.size());
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

size_t character_at(std::string_view text, size_t number) {
  size_t at = 0;
  for (; number > 0 && at < text.size(); --number) at += read_code_point(text.data() + at).bytes;
  Budget::look_at(at);
  return at;
}

std::string_view strip(std::string_view text, std::optional<std::string_view> set, bool left,
                       bool right) {
  const size_t before = text.size();
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
  Budget::look_at(before - text.size());
  return text;
}

Text upper(const Text& text) {
  return changed(text, [](uint32_t c, bool) { return upper_of(c); });
}

Text lower(const Text& text) {
  return changed(text, [](uint32_t c, bool) { return lower_of(c); });
}

Text capitalize(const Text& text) {
  return changed(text, [](uint32_t c, bool first) { return first ? upper_of(c) : lower_of(c); });
}

Text title(const Text& text) {
  bool in_word = false;
  return changed(text, [&](uint32_t c, bool) {
    const bool starts = !in_word;
    in_word = (char_classes()[c] & kLetter) != 0;
    return starts ? upper_of(c) : lower_of(c);
  });
}

void split(std::string_view text, std::optional<std::string_view> separator, int64_t max,
           const OnPart& on_part) {
  if (!separator) return split_by_spaces(text, max, on_part);
  if (separator->empty()) fail("split takes a separator that is not empty");
  size_t begin = 0;
  for (int64_t cuts = 0; max < 0 || cuts < max; ++cuts) {
    const size_t end = find(text, *separator, begin);
    if (end == std::string_view::npos) break;
    on_part(text.substr(begin, end - begin));
    begin = end + separator->size();
  }
  on_part(text.substr(begin));
}

void split_lines(std::string_view text, const OnPart& on_line) {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    Budget::look_at(end);
    on_line(text.substr(0, end));
    text.remove_prefix(end);
    if (!text.empty()) text.remove_prefix(text.substr(0, 2) == "\r\n" ? 2 : 1);
  }
}

Text replace(const Text& text, std::string_view from, const Text& to, int64_t max) {
  Text out;
  int64_t left = max < 0 ? INT64_MAX : max;
  const auto put = [&] {
    if (left-- > 0) out.append(to);
  };
  const std::string_view all = text.view();
  if (from.empty()) {  // between all characters, and at both ends
    put();
    for_each_character(all, [&](uint32_t, std::string_view bytes, size_t at) {
      out.append(text, at, bytes.size());
      put();
    });
    return out;
  }
  size_t begin = 0;
  while (left > 0) {
    const size_t found = find(all, from, begin);
    if (found == std::string_view::npos) break;
    out.append(text, begin, found - begin);
    put();
    begin = found + from.size();
  }
  out.append(text, begin, all.size() - begin);
  return out;
}

Text repeat(const Text& text, int64_t times) {
  Text out;
  if (text.empty() || times <= 0) return out;
  const size_t most = SIZE_MAX / text.size();
  Budget::check_text(
      static_cast<uint64_t>(times) > most ? SIZE_MAX : text.size() * static_cast<size_t>(times));
  Budget::spend(static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) out.append(text);
  return out;
}

Text slice_characters(const Text& text, std::optional<int64_t> start, std::optional<int64_t> stop,
                      int64_t step) {
  const std::string_view all = text.view();
  const size_t count = count_characters(all);
  if (step == 1) {
    const Bounds bounds = bounds_of(count, start, stop, step);
    if (bounds.begin >= bounds.end) return {};
    const size_t begin = character_at(all, static_cast<size_t>(bounds.begin));
    const std::string_view rest = all.substr(begin);
    return text.slice(begin, character_at(rest, static_cast<size_t>(bounds.end - bounds.begin)));
  }
  std::vector<size_t, Counted<size_t>> starts;
  starts.reserve(count + 1);
  for_each_character(all, [&](uint32_t, std::string_view, size_t at) { starts.push_back(at); });
  starts.push_back(all.size());
  Text out;
  for (const size_t i : slice_indices(count, start, stop, step))
    out.append(text, starts[i], starts[i + 1] - starts[i]);
  return out;
}

Text reversed(const Text& text) {
  Text out;
  Budget::look_at(text.size());
  for (size_t end = text.size(); end > 0;) {
    const size_t begin = previous_code_point(text.view(), end);
    out.append(text, begin, end - begin);
    end = begin;
  }
  return out;
}

std::vector<size_t, Counted<size_t>> slice_indices(size_t size, std::optional<int64_t> start,
                                                   std::optional<int64_t> stop, int64_t step) {
  const Bounds bounds = bounds_of(size, start, stop, step);
  const auto count = static_cast<int64_t>(size);
  std::vector<size_t, Counted<size_t>> indices;
  const auto before_end = [&](int64_t i) { return step > 0 ? i < bounds.end : i > bounds.end; };
  for (int64_t i = bounds.begin; before_end(i); i += step) {
    Budget::spend(1);
    indices.push_back(static_cast<size_t>(i));
    if (step > count || step < -count) break;  // the next one would lie outside, or overflow
  }
  return indices;
}

void append_repr(Text& out, const Text& text) {
  const std::string_view all = text.view();
  const bool apostrophe = all.find('\'') != std::string_view::npos;
  const char quote = apostrophe && all.find('"') == std::string_view::npos ? '"' : '\'';
  const std::string_view quotes(&quote, 1);
  out.append(quotes);
  for_each_character(all, [&](uint32_t c, std::string_view bytes, size_t at) {
    const bool is_quote = c == static_cast<uint32_t>(quote);
    const bool hidden = c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD;
    if (const char* escape = short_escape(c); escape != nullptr) {
      out.append_from(text, at, escape);
    } else if (hidden) {
      out.append_from(text, at, fmt::format("\\x{:02x}", c));
    } else {
      if (is_quote) out.append_from(text, at, "\\");
      out.append_from(text, at, bytes);
    }
  });
  out.append(quotes);
}

void append_json(Text& out, const Text& text, bool ascii) {
  out.append("\"");
  for_each_character(text.view(), [&](uint32_t c, std::string_view bytes, size_t at) {
    const auto add = [&](std::string_view made) { out.append_from(text, at, made); };
    if (const char* escape = short_escape(c); escape != nullptr) {
      add(escape);
    } else if (c == '"') {
      add("\\\"");
    } else if (c == '\b' || c == '\f') {
      add(c == '\b' ? "\\b" : "\\f");
    } else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) {
      add(c == 0x7F ? "\x7F" : fmt::format("\\u{:04x}", c));
    } else if (ascii && c >= 0x10000) {
      add(fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF)));
    } else {
      add(bytes);
    }
  });
  out.append("\"");
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
