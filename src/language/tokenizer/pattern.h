// SPDX-License-Identifier: Apache-2.0
// A regular expression of a tokenizer, matched by PCRE2 under limits, so that a hostile one ends
// with an error.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "fovea/result.h"

namespace fovea {

class Pattern {
 public:
  static Result<Pattern> compile(const std::string& text);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  struct Match {
    bool found = false;
    size_t begin = 0;
    size_t end = 0;
  };

  // Finds the matches in one text after the other, from left to right; empty ones are skipped. Its
  // working memory is made once, so use one for many texts; one for each thread.
  class Search {
   public:
    explicit Search(const Pattern& pattern);
    ~Search();
    Search(Search&&) noexcept;
    Search& operator=(Search&&) = delete;
    void start(std::string_view text);  // valid UTF-8
    Result<Match> next();

   private:
    struct State;
    const Pattern& pattern_;
    std::string_view text_;
    size_t at_ = 0;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace fovea
