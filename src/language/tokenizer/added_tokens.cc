// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "language/sourced_text.h"
#include "language/tokenizer/normalize.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxTokenBytes = 1024;
constexpr size_t kMaxTokens = 100'000;
// Looking for tokens: a byte that some of them start with takes a few steps, and so does each
// further one that they have in common with the text.
constexpr size_t kSteps = 1'000'000;
constexpr size_t kStepsPerByte = 256;
constexpr size_t kStepsBetweenPolls = 1'000'000;

Result<AddedToken> read_token(const Json& json) {
  const Json content = json.is_object() ? json.value("content", Json()) : Json();
  if (!content.is_string())
    return bad_input("an added token has no content: " + json.dump().substr(0, 200));
  AddedToken token;
  token.content = content.get<std::string>();
  if (token.content.size() > kMaxTokenBytes)
    return bad_input(fmt::format("added token '{}...' has {} bytes; at most {} are read",
                                 token.content.substr(0, 32), token.content.size(),
                                 kMaxTokenBytes));
  const Json id = json.value("id", Json());
  const bool in_range = id.is_number_integer() && id >= 0 && id <= kMaxTokenId;
  if (!in_range)
    return bad_input(fmt::format("added token '{}' has id {}; ids go from 0 to {}", token.content,
                                 id.dump(), kMaxTokenId));
  token.id = id.get<int>();
  const auto flag = [&json](const char* name) { return json.value(name, Json()) == true; };
  token.special = flag("special");
  token.normalized = flag("normalized");
  token.single_word = flag("single_word");
  token.lstrip = flag("lstrip");
  token.rstrip = flag("rstrip");
  return token;
}

bool has_class(std::string_view text, size_t at, uint8_t bits) {
  return (char_classes()[read_code_point(text.data() + at).value] & bits) != 0;
}

// Where the spaces before `end` start.
size_t spaces_before(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t before = previous_code_point(text, end);
    if (!has_class(text, before, kSpace)) break;
    end = before;
  }
  return end;
}

size_t spaces_after(std::string_view text, size_t begin) {
  while (begin < text.size() && has_class(text, begin, kSpace))
    begin += read_code_point(text.data() + begin).bytes;
  return begin;
}

bool touches_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && has_class(text, previous_code_point(text, begin), kWord)) ||
         (end < text.size() && has_class(text, end, kWord));
}

}  // namespace

Result<std::vector<AddedToken>> read_added_tokens(const Json& json, const Vocabulary& vocabulary,
                                                  bool to_nfc) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array() || json.size() > kMaxTokens)
    return bad_input(fmt::format("added_tokens is no list of at most {} tokens", kMaxTokens));
  std::unordered_map<std::string, int> seen;
  auto next_id = static_cast<int>(vocabulary.count());
  for (const Json& item : json) {
    auto token = read_token(item);
    if (!token) return token.error();
    if (token->content.empty()) continue;
    if (!seen.emplace(token->content, token->id).second)
      return bad_input(fmt::format("added token '{}' stands twice", token->content));
    const int known = vocabulary.find(token->content);
    const int expected = known >= 0 ? known : next_id++;
    if (token->id != expected)
      return bad_input(
          fmt::format("added token '{}' has id {}, but its place is {}; ids of added "
                      "tokens follow the vocabulary without a gap",
                      token->content, token->id, expected));
    token->normalized_content = token->normalized && to_nfc ? nfc(token->content) : token->content;
    tokens.push_back(std::move(*token));
  }
  return tokens;
}

TokenFinder::TokenFinder(const std::vector<AddedToken>& tokens, bool normalized)
    : tokens_(&tokens) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].normalized == normalized) sorted_.push_back(static_cast<int32_t>(i));
  const auto content_of = [&](int32_t i) -> const std::string& {
    return tokens[static_cast<size_t>(i)].normalized_content;
  };
  // Of equal contents the first token counts.
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [&](int32_t a, int32_t b) { return content_of(a) < content_of(b); });
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end(),
                            [&](int32_t a, int32_t b) { return content_of(a) == content_of(b); }),
                sorted_.end());
  for (const int32_t i : sorted_) ++starts_[static_cast<uint8_t>(content_of(i)[0]) + 1U];
  for (size_t byte = 0; byte < 256; ++byte) starts_[byte + 1] += starts_[byte];
}

// The tokens that go on as the text does are a range of `sorted_`, which each byte narrows.
TokenFinder::Found TokenFinder::longest_at(const TokenSearch& search, size_t begin,
                                           size_t& steps) const {
  const std::string_view text = search.text;
  const auto first = static_cast<uint8_t>(text[begin]);
  size_t low = starts_[first];
  size_t high = starts_[first + 1U];
  Found longest;
  for (size_t size = 1; low < high; ++size, ++steps) {
    // Of those that share their first `size` bytes, the one that ends there comes first.
    if (content(low).size() == size) {
      const int32_t index = sorted_[low++];
      const AddedToken& token = (*tokens_)[static_cast<size_t>(index)];
      if (!token.special || !people_wrote(search.sources, begin, begin + size))
        longest = {index, begin, begin + size};
    }
    if (begin + size == text.size()) break;
    const auto next = static_cast<uint8_t>(text[begin + size]);
    const auto byte_of = [&](size_t place) { return static_cast<uint8_t>(content(place)[size]); };
    const auto border = [&](int byte) {  // the first place whose byte is at least this
      size_t from = low;
      size_t to = high;
      for (; from < to; ++steps) {
        const size_t middle = from + (to - from) / 2;
        (byte_of(middle) < byte ? from : to) = byte_of(middle) < byte ? middle + 1 : middle;
      }
      return from;
    };
    const size_t begin_of_next = border(next);
    high = border(next + 1);
    low = begin_of_next;
  }
  return longest;
}

TokenFinder::Found TokenFinder::find(const TokenSearch& search, size_t from, size_t& steps) const {
  for (size_t begin = from; begin < search.text.size(); ++begin) {
    const auto first = static_cast<uint8_t>(search.text[begin]);
    if (starts_[first] == starts_[first + 1U]) continue;
    const size_t before = steps;
    const Found found = longest_at(search, begin, steps);
    if (found.token >= 0) return found;
    if (steps / kStepsBetweenPolls != before / kStepsBetweenPolls) return {-1, begin + 1, 0};
  }
  return {-1, search.text.size(), 0};
}

Status TokenFinder::split(const TokenSearch& search,
                          const std::function<Status(size_t, size_t)>& on_piece,
                          const std::function<void(int)>& on_token) const {
  const std::string_view text = search.text;
  const size_t max_steps = kSteps + kStepsPerByte * text.size();
  size_t done = 0;
  size_t steps = 0;
  for (size_t from = 0; from < text.size();) {
    const Found found = find(search, from, steps);
    if (search.keep_going && !search.keep_going()) return failed("tokenizing was stopped");
    if (steps > max_steps)
      return bad_input(
          fmt::format("the tokenizer's added tokens take too long on a text of {} bytes; use the "
                      "tokenizer.json the model was published with",
                      text.size()));
    if (found.token < 0) {
      from = found.begin;
      continue;
    }
    from = found.end;
    const AddedToken& token = (*tokens_)[static_cast<size_t>(found.token)];
    if (token.special && !search.with_special) continue;
    size_t begin = found.begin;
    size_t end = found.end;
    if (token.single_word && touches_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(spaces_before(text, begin), done);
    if (token.rstrip) end = spaces_after(text, end);
    if (begin > done)
      if (auto good = on_piece(done, begin); !good) return good;
    on_token(token.id);
    done = end;
  }
  return done < text.size() ? on_piece(done, text.size()) : Status(Done{});
}

}  // namespace fovea
