// SPDX-License-Identifier: Apache-2.0
// Characters: reading and writing UTF-8, and the classes that patterns and normalisation ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fovea {

// Bits of a character's classes, each as the `tokenizers` package sees it.
enum CharClass : uint8_t {
  kLetter = 1,      // \p{L}
  kNumber = 2,      // \p{N}
  kSpace = 4,       // \s
  kWord = 8,        // \w
  kNfcActive = 16,  // NFC may change it, or join it to the character before
};

inline constexpr uint32_t kCodePoints = 0x110000;

// Classes of every code point, one byte each.
const uint8_t* char_classes();

struct CodePoint {
  uint32_t value = 0;
  uint32_t bytes = 0;
};

// Reads the code point that starts at `text`; the text must be valid UTF-8.
inline CodePoint read_code_point(const char* text) {
  const auto byte = [text](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

// Where the code point that ends before `end` starts; `end` > 0, valid UTF-8.
inline size_t previous_code_point(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
  return end;
}

void append_utf8(std::string& text, uint32_t code_point);

// How many leading bytes of `text` form whole, valid characters; fast over ASCII.
size_t valid_utf8_prefix(std::string_view text);

// What the bytes at the head of `text`, which form no whole character, are: the start of a
// character that may still come whole, or bytes that no character holds.
struct BrokenUtf8 {
  size_t bytes = 0;         // how many of them one U+FFFD stands for
  bool incomplete = false;  // the text ends inside a character
};
BrokenUtf8 broken_utf8(std::string_view text);

// Each stretch that is no character becomes one U+FFFD, as Unicode recommends (maximal subparts).
std::string replace_invalid_utf8(std::string_view text);

}  // namespace fovea
