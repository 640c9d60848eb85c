// SPDX-License-Identifier: Apache-2.0
// What the readers of question files share.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "eval/questions.h"

namespace fovea::eval {

// Where a record stands, for errors and for what the record leaves open.
struct Place {
  std::string file;
  int64_t line = 0;    // of a JSONL file; 0: the record is the file
  int64_t record = 0;  // of a JSON list, from 1; 0: there is no list

  std::string name() const;  // "questions.jsonl:12"
  Error wrong(const std::string& what) const;
};

// Questions as they are found, and the images they name.
class Collection {
 public:
  explicit Collection(const DataOptions& options) : options_(options) {}

  const DataOptions& options() const { return options_; }
  // Finds the image of a question and keeps both. `image` is as the record names it.
  Status add(Question question, const std::string& image, const Place& place);
  QuestionSet take() &&;

 private:
  Result<std::string> find_image(const std::string& image, const Place& place) const;

  DataOptions options_;
  std::vector<Question> questions_;
  std::vector<std::string> paths_;
  std::map<std::string, size_t> numbers_;  // of the paths
};

// The records of a file's text: one a line, or one JSON value, a record or a list of them.
Status read_lines(const std::string& path, std::string_view text, Collection& into);
Status read_json(const std::string& path, std::string_view text, Collection& into);

// One record of any of the formats; what it is, its fields say.
Status read_record(const nlohmann::json& record, const Place& place, Collection& into);

// "(A) left" or "B. right" on lines of their own, in the order of the alphabet.
std::vector<std::string> options_in(const std::string& text);

}  // namespace fovea::eval
