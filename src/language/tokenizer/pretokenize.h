// SPDX-License-Identifier: Apache-2.0
// Text -> words: what the tokenizer's own steps (patterns, prefix space) cut it into. Merges never
// cross the border of a word.
#pragma once

#include <algorithm>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/result.h"
#include "language/tokenizer/pattern.h"

namespace fovea {

class Pretokenizer {
 public:
  using OnWord = std::function<void(std::string_view)>;

  // `json` is the pre_tokenizer of a tokenizer.json. `fast` off: the expression engine always.
  static Result<Pretokenizer> make(const nlohmann::json& json, bool fast = true);

  // Calls on_word for every word, in order. A word's view ends with the call.
  Status split(std::string_view text, PatternWork& work, const OnWord& on_word) const;

  // What its patterns may do on a text of so many bytes.
  PatternWork work_on(size_t bytes, std::function<bool()> keep_going = nullptr) const {
    return {bytes * std::max<size_t>(1, patterns_.size()), std::move(keep_going)};
  }

 private:
  struct Step {
    enum class Kind { kQwen, kPattern, kPrefixSpace };
    Kind kind = Kind::kQwen;
    size_t pattern = 0;        // kPattern: which of patterns_
    bool keep_matches = true;  // kPattern: false leaves out what matches
  };

  Status add(const nlohmann::json& json, bool fast);
  Status add_split(const nlohmann::json& json, bool fast);
  Status add_pattern(const std::string& pattern, bool keep_matches);
  // One split under way: a search for each step, and where words go.
  struct Splitting {
    std::vector<Pattern::Search> searches;
    PatternWork& work;
    const OnWord& on_word;
  };
  Status split(Splitting& splitting, size_t step, std::string_view text) const;
  Status split_by_pattern(Splitting& splitting, size_t step, std::string_view text) const;

  std::vector<Step> steps_;
  std::vector<Pattern> patterns_;
  bool byte_level_ = false;
};

}  // namespace fovea
