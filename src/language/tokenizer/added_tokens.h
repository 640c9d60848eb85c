// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text itself, before any pattern: <|im_start|> and the like.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "language/tokenizer/vocabulary.h"

namespace fovea {

struct AddedToken {
  int id = -1;
  std::string content;
  std::string normalized_content;  // what the decoder reads, and what matches if `normalized`
  bool special = false;            // left out of decoded text on demand
  bool normalized = true;          // found in the text after normalisation, not before
  bool single_word = false;        // not where a word character touches it
  bool lstrip = false;             // takes the spaces before it along
  bool rstrip = false;             // takes the spaces after it along
};

// Reads the added_tokens of a tokenizer.json and gives each its id: that of the vocabulary where it
// is there, else the next free one. An id in the file that says otherwise is an error.
Result<std::vector<AddedToken>> read_added_tokens(const nlohmann::json& json,
                                                  const Vocabulary& vocabulary, bool to_nfc);

// A text in which tokens are looked for.
struct TokenSearch {
  std::string_view text;
  std::string_view sources;  // as SourcedText's; special tokens are not found where people wrote
  bool with_special = true;  // off: special tokens are text like any other
  std::function<bool()> keep_going;  // asked while it works; false ends it with an error
};

// Finds the tokens of one kind in a text: the leftmost first, of those the longest.
class TokenFinder {
 public:
  explicit TokenFinder(const std::vector<AddedToken>& tokens, bool normalized);

  // Calls on_piece(begin, end) for stretches without tokens, on_token for tokens, in order; stops
  // on an error.
  Status split(const TokenSearch& search, const std::function<Status(size_t, size_t)>& on_piece,
               const std::function<void(int)>& on_token) const;

 private:
  struct Found {
    int32_t token = -1;
    size_t begin = 0;
    size_t end = 0;
  };

  Found find(const TokenSearch& search, size_t from, size_t& steps) const;
  Found longest_at(const TokenSearch& search, size_t begin, size_t& steps) const;
  std::string_view content(size_t place) const {
    return (*tokens_)[static_cast<size_t>(sorted_[place])].normalized_content;
  }

  const std::vector<AddedToken>* tokens_;
  std::vector<int32_t> sorted_;  // which of the tokens, by their contents
  std::array<uint32_t, 257>
      starts_{};  // those that start with a byte: [starts_[b], starts_[b + 1])
};

}  // namespace fovea
