// SPDX-License-Identifier: Apache-2.0
// The text of a tokenizer.json -> its settings, vocabulary and merges. The two long lists are read
// as they go by; only the few settings become a JSON value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "language/tokenizer/vocabulary.h"

namespace fovea {

// The JSON library asserts in its move, which the linter takes for a throw.
struct TokenizerFile {  // NOLINT(bugprone-exception-escape)
  struct Merge {
    uint32_t at = 0;  // in `merge_text`: left, then right
    uint32_t left_size = 0;
    uint32_t right_size = 0;
  };

  nlohmann::json settings;  // everything else; the model without its lists
  Vocabulary vocabulary;    // without the added tokens
  std::string merge_text;
  std::vector<Merge> merges;  // by rank

  std::string_view left(const Merge& merge) const {
    return std::string_view(merge_text).substr(merge.at, merge.left_size);
  }
  std::string_view right(const Merge& merge) const {
    return std::string_view(merge_text).substr(merge.at + merge.left_size, merge.right_size);
  }
};

Result<TokenizerFile> read_tokenizer_file(std::string_view json);

}  // namespace fovea
