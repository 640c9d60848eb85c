// SPDX-License-Identifier: Apache-2.0
#include "language/tokenizer/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "language/tokenizer/normalize.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxTokenBytes = 1024;
constexpr size_t kMaxTokens = 100'000;

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
    : tokens_(&tokens), nodes_(1) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].normalized == normalized)
      add(tokens[i].normalized_content, static_cast<int32_t>(i));
}

void TokenFinder::add(std::string_view content, int32_t token) {
  starts_[static_cast<uint8_t>(content[0])] = true;
  uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = nodes_[node].child;
    while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({0, nodes_[node].child, -1, byte});
      nodes_[node].child = child;
    }
    node = child;
  }
  if (nodes_[node].token < 0) nodes_[node].token = token;
}

TokenFinder::Found TokenFinder::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])]) continue;
    Found longest;
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      node = nodes_[node].child;
      while (node != 0 && nodes_[node].byte != static_cast<uint8_t>(text[i]))
        node = nodes_[node].sibling;
      if (node == 0) break;
      if (nodes_[node].token >= 0) longest = {nodes_[node].token, begin, i + 1};
    }
    if (longest.token >= 0) return longest;
  }
  return {-1, text.size(), text.size()};
}

Status TokenFinder::split(std::string_view text, bool with_special,
                          const std::function<Status(std::string_view)>& on_piece,
                          const std::function<void(int)>& on_token) const {
  size_t done = 0;
  for (Found found = find(text, 0); found.token >= 0; found = find(text, found.end)) {
    const AddedToken& token = (*tokens_)[static_cast<size_t>(found.token)];
    if (token.special && !with_special) continue;
    size_t begin = found.begin;
    size_t end = found.end;
    if (token.single_word && touches_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(spaces_before(text, begin), done);
    if (token.rstrip) end = spaces_after(text, end);
    if (begin > done)
      if (auto good = on_piece(text.substr(done, begin - done)); !good) return good;
    on_token(token.id);
    done = end;
  }
  return done < text.size() ? on_piece(text.substr(done)) : Status(Done{});
}

}  // namespace fovea
