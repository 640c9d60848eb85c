// SPDX-License-Identifier: Apache-2.0
// A regular expression of a tokenizer, matched by PCRE2 under limits, so that a hostile one ends
// with an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "fovea/result.h"

namespace fovea {

// What the patterns of a tokenizer may do on one text, all matches together. PCRE2 limits a match
// alone, and a pattern of nested repeats can take nearly that much at every character.
class PatternWork {
 public:
  // `bytes`: of the text, for each pattern that sees it. `keep_going` is asked while it works.
  PatternWork(size_t bytes, std::function<bool()> keep_going);

  // The processor time that a text of this size is worth. It is looked at between tries, so what
  // they take in all may be somewhat more.
  static constexpr double most_seconds(size_t bytes) {
    return kSeconds + kSecondsPerByte * static_cast<double>(bytes);
  }

  // Counts one try that may take so many steps on a text of this size; an error where the text is
  // not worth more, or where it was told to stop.
  Status take(uint32_t steps, size_t text_bytes);

 private:
  static constexpr uint64_t kSteps = 5'000'000;
  static constexpr uint64_t kStepsPerByte = 512;
  // A step may pass over a long run of characters, so processor time counts too.
  static constexpr double kSeconds = 1;
  static constexpr double kSecondsPerByte = 2e-6;
  static constexpr size_t kBytesBetweenPolls = size_t{4} << 20;

  uint64_t steps_left_;
  double end_s_;  // of this thread's processor time
  size_t unpolled_bytes_ = 0;
  std::function<bool()> keep_going_;
};

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
    void start(std::string_view text, PatternWork& work);  // valid UTF-8
    Result<Match> next();

   private:
    struct State;
    const Pattern& pattern_;
    Result<int> match_here();  // as pcre2_match

    std::string_view text_;
    PatternWork* work_ = nullptr;
    size_t at_ = 0;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace fovea
