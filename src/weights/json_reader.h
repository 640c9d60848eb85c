// SPDX-License-Identifier: Apache-2.0
// Reads JSON whose form is known beforehand, front to back, without building a tree.
//
// A safetensors header or a shard index may name 100,000 tensors; a tree of them would take longer
// and more memory than a bad file may cost. Strings without escapes are views into the text.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

namespace fovea {

// Every member returns false after the first fault; fault() says what it was and where.
// The text must be valid UTF-8 and outlive the reader's strings.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // for (bool more = reader.open('{'); more; more = reader.next('}')) { reader.key(name); ... }
  bool open(char bracket);           // '{' or '['; false for an empty one too
  bool next(char end_bracket);       // ',' -> true, the closing bracket -> false
  bool key(std::string_view& name);  // a string and the colon
  bool string(std::string_view& value);
  bool unsigned_integer(uint64_t& value);
  bool skip();  // any value
  bool end();   // nothing but white space is left

  bool ok() const { return fault_.empty(); }
  const std::string& fault() const { return fault_; }
  bool fail(const std::string& what);  // false, always

  // The strings that are no views into the text, for a caller that keeps its views. (Moving a deque
  // moves none of its strings.)
  std::deque<std::string> take_unescaped() { return std::move(unescaped_); }

 private:
  char peek();  // the next character that is not white space; 0 at the end
  bool take(char expected);
  bool unescape(size_t begin, std::string_view& value);
  bool escape(std::string& target);
  bool hex4(uint32_t& value);
  bool skip_word();

  std::string_view text_;
  size_t at_ = 0;
  std::string fault_;
  std::deque<std::string> unescaped_;  // strings that had escapes; views to them stay valid
};

}  // namespace fovea
