// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/unicode.h"

#include <cstring>
#include <memory>
#include <span>

namespace fovea {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

#include "language/tokenizer/unicode_classes.inc"

struct Classes {
  std::unique_ptr<uint8_t[]> of = std::make_unique<uint8_t[]>(kCodePoints);

  Classes() {
    mark(kLetters, kLetter | kWord);
    mark(kNumbers, kNumber);
    mark(kSpaces, kSpace);
    mark(kOtherWordCharacters, kWord);
    mark(kNfcActiveRanges, kNfcActive);
  }

  void mark(std::span<const Range> ranges, uint8_t bits) {
    for (const Range& range : ranges)
      for (uint32_t c = range.first; c <= range.last; ++c) of[c] |= bits;
  }
};

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The second byte decides whether a three- or four-byte character is overlong, a surrogate or too
// large; the rest only need to continue.
struct Lead {
  size_t bytes = 0;  // 0: starts no character
  uint8_t second_low = 0x80;
  uint8_t second_high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// How many bytes at `text` belong together, up to the whole character.
size_t matching_bytes(std::string_view text, const Lead& lead) {
  size_t count = 1;
  for (; count < lead.bytes && count < text.size(); ++count) {
    const auto byte = static_cast<uint8_t>(text[count]);
    const bool good =
        count == 1 ? byte >= lead.second_low && byte <= lead.second_high : (byte & 0xC0) == 0x80;
    if (!good) break;
  }
  return count;
}

}  // namespace

const uint8_t* char_classes() {
  static const Classes kClasses;
  return kClasses.of.get();
}

void append_utf8(std::string& text, uint32_t c) {
  const auto push = [&text](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    push(c);
    return;
  }
  if (c < 0x800) {
    push(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      push(0xE0 | c >> 12);
    } else {
      push(0xF0 | c >> 18);
      push(0x80 | (c >> 12 & 0x3F));
    }
    push(0x80 | (c >> 6 & 0x3F));
  }
  push(0x80 | (c & 0x3F));
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight = 0;
    while (i + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + i, 8);
      if ((eight & 0x8080808080808080U) != 0) break;
      i += 8;
    }
    while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
    while (i < text.size() && static_cast<uint8_t>(text[i]) >= 0x80) {
      const Lead lead = lead_of(static_cast<uint8_t>(text[i]));
      if (lead.bytes == 0 || matching_bytes(text.substr(i), lead) < lead.bytes) return i;
      i += lead.bytes;
    }
  }
  return i;
}

BrokenUtf8 broken_utf8(std::string_view text) {
  const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
  if (lead.bytes == 0) return {1, false};
  const size_t bytes = matching_bytes(text, lead);
  return {bytes, bytes == text.size() && bytes < lead.bytes};
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t good = valid_utf8_prefix(text);
    valid.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    valid.append(kReplacement);
    text.remove_prefix(broken_utf8(text).bytes);
  }
  return valid;
}

}  // namespace fovea
