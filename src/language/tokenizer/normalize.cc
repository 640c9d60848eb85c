// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);

int combining_class(int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Where the next character that NFC may change starts, or the end.
size_t find_active(std::string_view text, size_t from) {
  const uint8_t* const classes = char_classes();
  while (from < text.size()) {
    // Nothing below U+0300 is active, and those characters start with a byte below 0xCC.
    if (static_cast<uint8_t>(text[from]) < 0xCC) {
      ++from;
      continue;
    }
    const CodePoint c = read_code_point(text.data() + from);
    if ((classes[c.value] & kNfcActive) != 0) return from;
    from += c.bytes;
  }
  return text.size();
}

void decompose(int32_t c, std::vector<int32_t>& out) {
  int32_t parts[32];  // a canonical decomposition has at most four
  int boundary = 0;
  const auto count = utf8proc_decompose_char(c, parts, 32, kCompose, &boundary);
  FOVEA_CHECK(count >= 0 && count <= 32);
  out.insert(out.end(), parts, parts + count);
}

// Puts the marks between two starters in canonical order. utf8proc's own ordering takes quadratic
// time, which would be minutes for a text of marks alone.
void order_marks(std::vector<int32_t>& points) {
  auto begin = points.begin();
  while (begin != points.end()) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, points.end(), [](int32_t c) { return combining_class(c) == 0; });
    std::stable_sort(begin, end,
                     [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

}  // namespace

bool is_surely_nfc(std::string_view text) { return find_active(text, 0) == text.size(); }

std::string nfc(std::string_view text) { return nfc(text, {}).bytes; }

SourcedText nfc(std::string_view text, std::string_view sources) {
  SourcedText out;
  out.bytes.reserve(text.size());
  const auto copy = [&](size_t begin, size_t end) {
    out.bytes.append(text.substr(begin, end - begin));
    if (!sources.empty()) out.sources.append(sources.substr(begin, end - begin));
  };
  const uint8_t* const classes = char_classes();
  std::vector<int32_t> points;
  size_t done = 0;
  for (size_t active = find_active(text, 0); active < text.size();
       active = find_active(text, done)) {
    // A region is the character before the active ones, which they may join, and all of them. A
    // character that is a mark for a newer Unicode only is left out: here it is a starter to which
    // nothing joins.
    size_t begin = active;
    if (active > done) {
      const size_t before = previous_code_point(text, active);
      const auto starter = static_cast<int32_t>(read_code_point(text.data() + before).value);
      if (combining_class(starter) == 0) begin = before;
    }
    copy(done, begin);
    points.clear();
    size_t end = begin;
    while (end < text.size()) {
      const CodePoint c = read_code_point(text.data() + end);
      if (end >= active && (classes[c.value] & kNfcActive) == 0) break;
      decompose(static_cast<int32_t>(c.value), points);
      end += c.bytes;
    }
    order_marks(points);
    const auto count =
        utf8proc_normalize_utf32(points.data(), static_cast<ptrdiff_t>(points.size()), kCompose);
    FOVEA_CHECK(count >= 0);
    for (ptrdiff_t i = 0; i < count; ++i)
      append_utf8(out.bytes, static_cast<uint32_t>(points[static_cast<size_t>(i)]));
    if (!sources.empty())
      out.sources.resize(out.bytes.size(), people_wrote(sources, begin, end)
                                               ? SourcedText::kPeople
                                               : SourcedText::kTemplate);
    done = end;
  }
  copy(done, text.size());
  return out;
}

}  // namespace fovea
