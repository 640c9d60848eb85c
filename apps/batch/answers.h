// SPDX-License-Identifier: Apache-2.0
// The lines of a batch, one for each picture, and what they add up to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/answer.h"
#include "fovea/new_file.h"
#include "fovea/result.h"
#include "kept/kept_lines.h"

namespace fovea::batch {

// A line without its end, and what of it is counted.
struct Line {
  std::string text;
  std::string error;  // empty: the picture was answered
  int64_t image_tokens = 0;
  int64_t image_tokens_full = 0;
};

Line line_of(const std::string& picture, const Answer& answer);
Line line_of(const std::string& picture, const Error& error);

struct Tally {
  size_t pictures = 0;
  size_t failed = 0;
  std::string first_failure;  // which picture, and why
  int64_t image_tokens = 0;
  int64_t image_tokens_full = 0;
};

// Where the lines go: a file that a later run goes on with, or stdout, "-".
class Answers {
 public:
  // The file may hold lines of the first pictures already. An error says what else it holds.
  static Result<std::unique_ptr<Answers>> open(const std::string& path,
                                               const std::string& settings_json,
                                               const std::vector<std::string>& pictures);

  // Of the next picture.
  Status add(const Line& line);
  // Of all pictures that have a line, those of earlier runs too.
  const Tally& tally() const { return tally_; }

 private:
  explicit Answers(const std::vector<std::string>& pictures) : pictures_(pictures) {}
  Result<bool> take(const std::string& text);
  void count(const Line& line);

  const std::vector<std::string>& pictures_;
  Tally tally_;
  std::unique_ptr<kept::KeptLines> file_;
  std::optional<NewFile> stdout_;
};

}  // namespace fovea::batch
