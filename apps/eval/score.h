// SPDX-License-Identifier: Apache-2.0
// Whether an answer is right, and how sure a share of right answers is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eval/questions.h"

namespace fovea::eval {

struct Interval {
  double low = 0;
  double high = 1;
};

// Wilson's score interval of a share `right` of `n`, 95 %; [0, 1] where n is 0.
Interval wilson(int64_t right, int64_t n);

// What exact match compares: lower case, without punctuation and articles, words with one space
// between, numbers up to twenty as digits, no commas in numbers.
std::string normalised(std::string_view text);

// The option an answer names, by its letter or by its text; -1 where it names none, or several.
int chosen_option(const std::vector<std::string>& options, std::string_view answer);

bool is_right(const Question& question, std::string_view answer);

}  // namespace fovea::eval
