// SPDX-License-Identifier: Apache-2.0
#include "eval/score.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace fovea::eval {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
// Bytes of characters beyond ASCII count as letters.
bool is_word(char c) {
  return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z') || static_cast<uint8_t>(c) >= 0x80;
}
char at(std::string_view text, size_t i) { return i < text.size() ? text[i] : ' '; }

// Curly quotes, dashes and the ellipsis: U+2010 to U+2027, three bytes each.
bool is_foreign_punctuation(std::string_view text, size_t i) {
  return at(text, i) == '\xe2' && at(text, i + 1) == '\x80' &&
         static_cast<uint8_t>(at(text, i + 2)) >= 0x90 &&
         static_cast<uint8_t>(at(text, i + 2)) <= 0xa7;
}

// "1,024": a comma with a digit before it and three after.
bool is_thousands_comma(std::string_view text, size_t i) {
  return i > 0 && text[i] == ',' && is_digit(text[i - 1]) && is_digit(at(text, i + 1)) &&
         is_digit(at(text, i + 2)) && is_digit(at(text, i + 3)) && !is_digit(at(text, i + 4));
}

// What punctuation leaves of itself: the point of 3.5 and the sign of -4 stay.
bool stays(std::string_view text, size_t i) {
  const char before = i > 0 ? text[i - 1] : ' ';
  if (text[i] == '.') return is_digit(before) && is_digit(at(text, i + 1));
  return text[i] == '-' && !is_word(before) && is_digit(at(text, i + 1));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_foreign_punctuation(text, i)) {
      words.emplace_back();
      i += 2;
    } else if (is_word(c) || stays(text, i)) {
      words.back() += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (c != '\'' && !is_thousands_comma(text, i)) {
      words.emplace_back();
    }
  }
  std::erase(words, "");
  return words;
}

std::string as_digits(const std::string& word) {
  static constexpr std::array kNumbers = {
      "zero",     "one",     "two",     "three",     "four",     "five",     "six",
      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",   "thirteen",
      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"};
  const auto* found = std::find(kNumbers.begin(), kNumbers.end(), word);
  return found == kNumbers.end() ? word : std::to_string(found - kNumbers.begin());
}

// "B", "(b)", "B.", "B: the left one", "B and no other"; not the article of "A dog".
int leading_letter(std::string_view answer, size_t count) {
  size_t begin = answer.find_first_not_of(" \t\r\n*\"'");
  if (begin == std::string_view::npos) return -1;
  const bool bracket = answer[begin] == '(' || answer[begin] == '[';
  if (bracket) ++begin;
  const char letter = at(answer, begin);
  const char after = begin + 1 < answer.size() ? answer[begin + 1] : '\0';
  const bool alone = after == '\0' || after == '\n' || after == '\r';
  const bool closed = after == ')' || after == ']' || after == '.' || after == ':' ||
                      after == ',' || after == '*' || after == '"';
  const bool spaced = after == ' ' && is_upper(letter) && letter != 'A' && letter != 'I';
  if (!alone && !closed && !spaced) return -1;
  if (bracket && !closed) return -1;
  const char upper = is_upper(letter) ? letter : static_cast<char>(letter - 'a' + 'A');
  const int option = upper - 'A';
  return option >= 0 && option < static_cast<int>(count) ? option : -1;
}

bool holds_words(const std::string& text, const std::string& words) {
  return (" " + text + " ").find(" " + words + " ") != std::string::npos;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

Interval wilson(int64_t right, int64_t n) {
  if (n <= 0) return {};
  constexpr double kZ = 1.959963984540054;  // 95 % of a normal distribution lie within
  const auto count = static_cast<double>(n);
  const double share = static_cast<double>(right) / count;
  const double scale = 1 + kZ * kZ / count;
  const double middle = (share + kZ * kZ / (2 * count)) / scale;
  const double reach =
      kZ / scale * std::sqrt(share * (1 - share) / count + kZ * kZ / (4 * count * count));
  // At the ends the formula gives 0 and 1 but for rounding.
  return {right == 0 ? 0 : std::max(0.0, middle - reach),
          right == n ? 1 : std::min(1.0, middle + reach)};
}

std::string normalised(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  std::string joined;
  const auto add = [&](const std::string& word) { joined += (joined.empty() ? "" : " ") + word; };
  for (const std::string& word : words)
    if (word != "a" && word != "an" && word != "the") add(as_digits(word));
  if (joined.empty())  // the letter A may be the whole answer
    for (const std::string& word : words) add(word);
  return joined;
}

int chosen_option(const std::vector<std::string>& options, std::string_view answer) {
  const std::string said = normalised(answer);
  if (said.empty()) return -1;
  for (size_t i = 0; i < options.size(); ++i)
    if (normalised(options[i]) == said) return static_cast<int>(i);
  if (const int letter = leading_letter(answer, options.size()); letter >= 0) return letter;
  // "dark red" names the option "red" too: the longest counts, if it holds what the others say.
  int named = -1;
  std::string longest;
  std::vector<std::string> found;
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string option = normalised(options[i]);
    if (option.empty() || !holds_words(said, option)) continue;
    found.push_back(option);
    if (option.size() <= longest.size()) continue;
    longest = option;
    named = static_cast<int>(i);
  }
  const bool one = std::all_of(found.begin(), found.end(), [&](const std::string& option) {
    return holds_words(longest, option);
  });
  return one ? named : -1;
}

bool is_right(const Question& question, std::string_view answer) {
  if (!question.options.empty())
    return chosen_option(question.options, answer) == question.right_option;
  const std::string said = normalised(answer);
  return std::any_of(
      question.answers.begin(), question.answers.end(), [&](const std::string& right) {
        // An answer of signs alone, such as "+", is compared as it is.
        return said.empty() ? trimmed(right) == trimmed(answer) : normalised(right) == said;
      });
}

}  // namespace fovea::eval
