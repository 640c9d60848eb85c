// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text itself, before any pattern: <|im_start|> and the like.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
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

// Finds the tokens of one kind in a text: the leftmost first, of those the longest.
class TokenFinder {
 public:
  explicit TokenFinder(const std::vector<AddedToken>& tokens, bool normalized);

  // Calls on_piece for stretches without tokens, on_token for tokens, in order; stops on an error.
  // `with_special` off: special tokens are text like any other.
  Status split(std::string_view text, bool with_special,
               const std::function<Status(std::string_view)>& on_piece,
               const std::function<void(int)>& on_token) const;

 private:
  struct Node {  // of a tree over bytes: the first child, then its siblings
    uint32_t child = 0;
    uint32_t sibling = 0;
    int32_t token = -1;
    uint8_t byte = 0;
  };
  struct Found {
    int32_t token = -1;
    size_t begin = 0;
    size_t end = 0;
  };

  void add(std::string_view content, int32_t token);
  Found find(std::string_view text, size_t from) const;

  const std::vector<AddedToken>* tokens_;
  std::vector<Node> nodes_;
  bool starts_[256] = {};  // bytes that some token starts with
};

}  // namespace fovea
