// SPDX-License-Identifier: Apache-2.0
#include "language/template/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "language/template/text.h"
#include "language/template/value.h"
#include "language/tokenizer/unicode.h"

namespace fovea::jinja {
namespace {

// The two- and one-character operators; longer ones first.
constexpr std::array<std::string_view, 25> kOperators = {
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
    ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ":", ".", "|"};

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

// "\r\n" and "\r" become "\n", and one newline at the end goes.
std::string with_plain_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      text += '\n';
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_and_tag();
    push(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  [[noreturn]] void wrong(const std::string& what) const {
    fail(fmt::format("line {}: {}", line_, what));
  }

  void push(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  void advance(size_t bytes) {
    const std::string_view passed = rest().substr(0, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += passed.size();
  }

  void push_text(std::string_view text) {
    if (!text.empty()) push(Token::Kind::kText, std::string(text));
  }

  // Text up to a tag, without the white space that the tag takes along: all of it after "{%-", and
  // that between the start of its line and a block or comment.
  std::string_view before_tag(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip(text, std::nullopt, false, true);
    if (sign == '+' || is_variable) return text;
    const size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line == 0 && !line_starting_) return text;
    return strip(text.substr(line), std::nullopt, true, true).empty() ? text.substr(0, line) : text;
  }

  static char sign_of(std::string_view text, size_t at) {
    return at < text.size() && (text[at] == '-' || text[at] == '+') ? text[at] : ' ';
  }

  void text_and_tag() {
    size_t tag = 0;
    const std::string_view all = rest();
    while (true) {
      tag = all.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= all.size()) {
        push_text(all);
        return advance(all.size());
      }
      if (all[tag + 1] == '{' || all[tag + 1] == '%' || all[tag + 1] == '#') break;
      ++tag;
    }
    const char kind = all[tag + 1];
    const char sign = sign_of(all, tag + 2);
    push_text(before_tag(all.substr(0, tag), sign, kind == '{'));
    advance(tag);
    if (kind == '#') return comment();
    if (kind == '%' && raw()) return;
    advance(sign == ' ' ? 2 : 3);
    kind == '{' ? tag_body("}}", Token::Kind::kVariableBegin, Token::Kind::kVariableEnd)
                : tag_body("%}", Token::Kind::kBlockBegin, Token::Kind::kBlockEnd);
  }

  // Passes the end of a tag, which starts at `bytes` from here: "-%}" takes all white space after
  // it along, "%}" one newline.
  void pass_end(size_t bytes, char sign, bool trims) {
    const size_t begin = at_;
    advance(bytes);
    if (sign == '-') {
      const std::string_view left = strip(rest(), std::nullopt, true, false);
      advance(rest().size() - left.size());
    } else if (trims && sign != '+' && rest().starts_with('\n')) {
      advance(1);
    }
    line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void comment() {
    const size_t begin = sign_of(rest(), 2) == ' ' ? 2 : 3;
    const size_t end = rest().find("#}", begin);
    if (end == std::string_view::npos) wrong("a comment has no end");
    const char sign = end > begin ? sign_of(rest(), end - 1) : ' ';
    pass_end(end + 2, sign, true);
  }

  // {% raw %} ... {% endraw %}: its text as it is.
  bool raw() {
    size_t end = 0;
    char sign = ' ';
    if (!is_tag(rest(), "raw", end, sign) || sign == '+') return false;
    pass_end(end, sign, false);
    const std::string_view all = rest();
    for (size_t tag = all.find("{%"); tag != std::string_view::npos;
         tag = all.find("{%", tag + 1)) {
      if (!is_tag(all.substr(tag), "endraw", end, sign)) continue;
      push_text(before_tag(all.substr(0, tag), sign_of(all, tag + 2), false));
      pass_end(tag + end, sign, true);
      return true;
    }
    wrong("{% raw %} has no end");
  }

  // True where `text` starts with a tag of this name alone; `end` is where it ends.
  static bool is_tag(std::string_view text, std::string_view name, size_t& end, char& sign) {
    size_t i = 2;
    if (sign_of(text, i) != ' ') ++i;
    const auto skip_spaces = [&] {
      while (i < text.size() && std::isspace(static_cast<unsigned char>(text[i])) != 0) ++i;
    };
    skip_spaces();
    if (text.substr(i, name.size()) != name) return false;
    i += name.size();
    skip_spaces();
    sign = sign_of(text, i);
    if (sign != ' ') ++i;
    end = i + 2;
    return text.substr(i, 2) == "%}";
  }

  void tag_body(std::string_view end, Token::Kind begin_kind, Token::Kind end_kind) {
    push(begin_kind, "");
    std::string open;  // brackets still to be closed
    while (true) {
      const std::string_view left = strip(rest(), std::nullopt, true, false);
      advance(rest().size() - left.size());
      if (left.empty()) wrong("a tag has no end");
      const bool is_block = end_kind == Token::Kind::kBlockEnd;
      const char sign = left[0] == '-' || (left[0] == '+' && is_block) ? left[0] : ' ';
      const size_t skip = sign == ' ' ? 0 : 1;
      if (open.empty() && left.substr(skip, 2) == end) {
        push(end_kind, "");
        return pass_end(skip + 2, sign, is_block);
      }
      one_token(left, open);
    }
  }

  void one_token(std::string_view left, std::string& open) {
    size_t end = 1;
    if (is_name_start(left[0])) {
      while (end < left.size() && is_name_part(left[end])) ++end;
      push(Token::Kind::kName, std::string(left.substr(0, end)));
      return advance(end);
    }
    if (is_digit(left[0])) return number(left);
    if (left[0] == '\'' || left[0] == '"') return quoted_text(left);
    for (const std::string_view text : kOperators) {
      if (!left.starts_with(text)) continue;
      balance(text[0], open);
      push(Token::Kind::kOperator, std::string(text));
      return advance(text.size());
    }
    wrong(fmt::format("unexpected '{}'", left.substr(0, read_code_point(left.data()).bytes)));
  }

  void balance(char c, std::string& open) const {
    constexpr std::string_view kOpen = "([{";
    constexpr std::string_view kClose = ")]}";
    if (const size_t at = kOpen.find(c); at != std::string_view::npos) open += kClose[at];
    if (kClose.find(c) == std::string_view::npos) return;
    if (open.empty() || open.back() != c) wrong(fmt::format("unexpected '{}'", c));
    open.pop_back();
  }

  void number(std::string_view left) {
    size_t end = 0;
    const auto digits = [&] {
      while (end < left.size() && (is_digit(left[end]) || left[end] == '_')) ++end;
    };
    const auto digit_at = [&](size_t at) { return at < left.size() && is_digit(left[at]); };
    digits();
    bool is_float = false;
    if (end < left.size() && left[end] == '.' && digit_at(end + 1)) {
      is_float = true;
      ++end;
      digits();
    }
    if (end < left.size() && (left[end] == 'e' || left[end] == 'E')) {
      const size_t sign =
          end + 1 < left.size() && (left[end + 1] == '-' || left[end + 1] == '+') ? 1 : 0;
      if (digit_at(end + 1 + sign)) {
        is_float = true;
        end += 1 + sign;
        digits();
      }
    }
    std::string text(left.substr(0, end));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    push(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(text));
    advance(end);
  }

  void quoted_text(std::string_view left) {
    size_t end = 1;
    while (end < left.size() && left[end] != left[0]) end += left[end] == '\\' ? 2 : 1;
    if (end >= left.size()) wrong("a text has no end");
    push(Token::Kind::kString, unescaped(left.substr(1, end - 1)));
    advance(end + 1);
  }

  std::string unescaped(std::string_view text) const;

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

// Python's escapes; one it does not know stays as it is written.
std::string Lexer::unescaped(std::string_view text) const {
  constexpr std::string_view kShort = "abfnrtv\\'\"";
  constexpr std::string_view kMeaning = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (const size_t at = kShort.find(c); at != std::string_view::npos) {
      out += kMeaning[at];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string hex(text.substr(i + 1, digits));
      const bool good =
          hex.size() == digits &&
          std::all_of(hex.begin(), hex.end(), [](unsigned char d) { return std::isxdigit(d); });
      const unsigned long value = good ? std::stoul(hex, nullptr, 16) : kCodePoints;
      if (value >= kCodePoints || (value >= 0xD800 && value < 0xE000))
        wrong(fmt::format("'\\{}{}' is no character", c, hex));
      append_utf8(out, static_cast<uint32_t>(value));
      i += digits;
    } else if (c >= '0' && c <= '7') {
      uint32_t value = 0;
      size_t end = i;
      while (end < std::min(i + 3, text.size()) && text[end] >= '0' && text[end] <= '7')
        value = value * 8 + static_cast<uint32_t>(text[end++] - '0');
      append_utf8(out, value);
      i = end - 1;
    } else if (c != '\n') {  // a backslash at the end of a line joins it to the next
      (out += '\\') += c;
    }
  }
  return out;
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace fovea::jinja
