// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/scan.h"

#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text)
      : text_(text.data()), end_(text.size()), classes_(char_classes()) {}

  size_t match(size_t begin) const {
    const char first = text_[begin];
    if (first == '\'')
      if (const size_t end = contraction(begin + 1); end > 0) return end;

    // [^\r\n\p{L}\p{N}]?\p{L}+
    const Char head = at(begin);
    if ((head.classes & kLetter) != 0) return skip(head.end, kLetter);
    if ((head.classes & kNumber) != 0) return head.end;
    if (!is_newline(first) && has(head.end, kLetter)) return skip(head.end, kLetter);

    // ?[^\s\p{L}\p{N}]+[\r\n]*
    const size_t marks = first == ' ' ? begin + 1 : begin;
    const size_t marks_end = skip_marks(marks);
    if (marks_end > marks) return skip_newlines(marks_end);
    return spaces(begin);
  }

 private:
  struct Char {
    size_t end;
    uint8_t classes;
  };

  static bool is_newline(char c) { return c == '\r' || c == '\n'; }

  Char at(size_t i) const {
    const auto byte = static_cast<uint8_t>(text_[i]);
    if (byte < 0x80) return {i + 1, classes_[byte]};
    const CodePoint c = read_code_point(text_ + i);
    return {i + c.bytes, classes_[c.value]};
  }

  bool has(size_t i, uint8_t bits) const { return i < end_ && (at(i).classes & bits) != 0; }

  size_t skip(size_t i, uint8_t bits) const {
    while (i < end_) {
      const Char c = at(i);
      if ((c.classes & bits) == 0) break;
      i = c.end;
    }
    return i;
  }

  size_t skip_marks(size_t i) const {
    while (i < end_) {
      const Char c = at(i);
      if ((c.classes & (kSpace | kLetter | kNumber)) != 0) break;
      i = c.end;
    }
    return i;
  }

  size_t skip_newlines(size_t i) const {
    while (i < end_ && is_newline(text_[i])) ++i;
    return i;
  }

  // (?i:'s|'t|'re|'ve|'m|'ll|'d) after its apostrophe; 0: no match. U+017F, the long s, is an s
  // where case does not count.
  size_t contraction(size_t i) const {
    const auto lower = [this](size_t at) {
      return at < end_ ? static_cast<char>(text_[at] | 0x20) : '\0';
    };
    switch (lower(i)) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return i + 1;
      case 'r':
      case 'v':
        return lower(i + 1) == 'e' ? i + 2 : 0;
      case 'l':
        return lower(i + 1) == 'l' ? i + 2 : 0;
      default:
        return i + 1 < end_ && text_[i] == '\xC5' && text_[i + 1] == '\xBF' ? i + 2 : 0;
    }
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last newline of the run; without one, the last space is
  // left to what follows it.
  size_t spaces(size_t begin) const {
    size_t newline_end = 0;
    size_t last = begin;  // where the last space of the run starts
    size_t i = begin;
    while (i < end_) {
      const Char c = at(i);
      if ((c.classes & kSpace) == 0) break;
      if (is_newline(text_[i])) newline_end = c.end;
      last = i;
      i = c.end;
    }
    if (newline_end > 0) return newline_end;
    return i == end_ || last == begin ? i : last;
  }

  const char* text_;
  size_t end_;
  const uint8_t* classes_;
};

}  // namespace

size_t scan_qwen(std::string_view text, size_t begin) { return Scanner(text).match(begin); }

}  // namespace fovea
