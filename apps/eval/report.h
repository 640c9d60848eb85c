// SPDX-License-Identifier: Apache-2.0
// Rows out of records, and their forms: tables for a person, JSON for a program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/questions.h"
#include "eval/records.h"
#include "eval/score.h"

namespace fovea::eval {

// One arm, budget and family. "all" is every family together.
struct Row {
  Setting setting;
  std::string family;
  int payload_px = 0;  // of rows by payload; else 0
  int64_t n = 0;
  int64_t right = 0;
  Interval interval;
  std::optional<double> evidence_recall;   // share of questions whose evidence is wholly covered
  std::optional<double> evidence_covered;  // mean share of the evidence that is
  double tokens = 0;
  double patches = 0;
  std::optional<double> kv_bytes;        // mean of the questions whose bytes are known
  std::optional<double> first_token_ms;  // median of the timed questions
  std::optional<double> answer_ms;

  double accuracy() const {
    return n > 0 ? static_cast<double>(right) / static_cast<double>(n) : 0;
  }
};

struct Report {
  std::string settings_json;
  std::vector<std::string> families;  // "all" first where there are several
  std::vector<Chance> chance;         // of each family
  std::vector<Row> rows;              // settings in their order, families within
  std::vector<Row> by_payload;        // of questions with a payload: all of them, then by family
};

Report make_report(const QuestionSet& set, std::span<const Setting> settings,
                   const Records& records, std::string settings_json);

std::string table_of(const Report& report);
std::string json_of(const Report& report);

}  // namespace fovea::eval
