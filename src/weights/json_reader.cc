// SPDX-License-Identifier: Apache-2.0
#include "weights/json_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "base/json.h"
#include "base/text.h"

namespace fovea {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(uint32_t code, std::string& target) {
  const auto add = [&](uint32_t byte) { target.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

}  // namespace

bool JsonReader::fail(const std::string& what) {
  if (ok()) fault_ = fmt::format("{} at byte {}", what, at_);
  return false;
}

char JsonReader::peek() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonReader::take(char expected) {
  if (!ok()) return false;
  const char found = peek();
  if (at_ == text_.size()) return fail(fmt::format("the text ends where '{}' should be", expected));
  if (found != expected)
    return fail(fmt::format("{} where '{}' should be", in_quotes(text_.substr(at_, 1)), expected));
  ++at_;
  return true;
}

bool JsonReader::open(char bracket) {
  if (!take(bracket)) return false;
  const char end_bracket = bracket == '{' ? '}' : ']';
  if (peek() != end_bracket) return true;
  ++at_;
  return false;
}

bool JsonReader::next(char end_bracket) {
  if (!ok()) return false;
  const char found = peek();
  if (found == ',') {
    ++at_;
    return true;
  }
  take(end_bracket);
  return false;
}

bool JsonReader::key(std::string_view& name) { return string(name) && take(':'); }

bool JsonReader::string(std::string_view& value) {
  if (!take('"')) return false;
  const size_t begin = at_;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      value = text_.substr(begin, at_ - begin);
      ++at_;
      return true;
    }
    if (c == '\\') return unescape(begin, value);
    if (static_cast<uint8_t>(c) < 0x20) return fail("a control character in a string");
  }
  return fail("a string without an end");
}

// The string that began at `begin` and has its first escape at at_.
bool JsonReader::unescape(size_t begin, std::string_view& value) {
  std::string& target = unescaped_.emplace_back(text_.substr(begin, at_ - begin));
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') {
      value = target;
      return true;
    }
    if (static_cast<uint8_t>(c) < 0x20) return fail("a control character in a string");
    if (c != '\\') {
      target.push_back(c);
    } else if (!escape(target)) {
      return false;
    }
  }
  return fail("a string without an end");
}

bool JsonReader::escape(std::string& target) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char name = at_ < text_.size() ? text_[at_++] : '\0';
  const size_t known = name == '\0' ? std::string_view::npos : kNames.find(name);
  if (known != std::string_view::npos) {
    target.push_back(kMeanings[known]);
    return true;
  }
  uint32_t code = 0;
  if (name != 'u' || !hex4(code)) return fail("an unknown escape in a string");
  if (code >= 0xD800 && code < 0xDC00) {  // the first half of a pair
    uint32_t low = 0;
    if (text_.substr(at_, 2) != "\\u") return fail("half of a surrogate pair");
    at_ += 2;
    if (!hex4(low) || low < 0xDC00 || low > 0xDFFF) return fail("half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code <= 0xDFFF) {
    return fail("half of a surrogate pair");
  }
  append_utf8(code, target);
  return true;
}

bool JsonReader::hex4(uint32_t& value) {
  const std::string_view digits = text_.substr(at_, 4);
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 4 || stop != digits.data() + 4 || error != std::errc()) return false;
  at_ += 4;
  return true;
}

bool JsonReader::unsigned_integer(uint64_t& value) {
  if (!ok()) return false;
  peek();
  const char* const begin = text_.data() + at_;
  const char* const end = text_.data() + text_.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range) return fail("a number over 2^64-1");
  const bool more = stop != end && (*stop == '.' || *stop == 'e' || *stop == 'E');
  const bool leading_zero = stop > begin + 1 && *begin == '0';
  if (error != std::errc() || more || leading_zero) return fail("no whole number of 0 or more");
  at_ += static_cast<size_t>(stop - begin);
  return true;
}

// true, false, null or a number.
bool JsonReader::skip_word() {
  const size_t begin = at_;
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_, word.size()) != word) continue;
    at_ += word.size();
    return true;
  }
  const auto digits = [&] {
    const size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > first;
  };
  const auto follows = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
  if (follows('-')) ++at_;
  const bool zero = follows('0');
  const size_t whole = at_;
  bool good = digits() && !(zero && at_ > whole + 1);
  if (good && follows('.')) {
    ++at_;
    good = digits();
  }
  if (good && (follows('e') || follows('E'))) {
    ++at_;
    if (follows('+') || follows('-')) ++at_;
    good = digits();
  }
  if (good) return true;
  at_ = begin;
  return fail("no JSON value");
}

bool JsonReader::skip() {
  if (!ok()) return false;
  std::vector<char> open_brackets;
  std::string_view ignored;
  const size_t kept = unescaped_.size();
  do {
    unescaped_.resize(kept);
    const char c = peek();
    bool entered = false;
    if (c == '{' || c == '[') {
      if (open_brackets.size() == kMaxJsonDepth)
        return fail(fmt::format("more than {} levels", kMaxJsonDepth));
      open_brackets.push_back(c == '{' ? '}' : ']');
      entered = open(c);
      if (!ok()) return false;
      if (!entered) open_brackets.pop_back();
    } else if (!(c == '"' ? string(ignored) : skip_word())) {
      return false;
    }
    while (!entered && !open_brackets.empty()) {
      entered = next(open_brackets.back());
      if (!ok()) return false;
      if (!entered) open_brackets.pop_back();
    }
    if (entered && open_brackets.back() == '}' && !key(ignored)) return false;
  } while (!open_brackets.empty());
  return true;
}

bool JsonReader::end() {
  if (!ok()) return false;
  peek();
  return at_ == text_.size() || fail("text after the end");
}

}  // namespace fovea
