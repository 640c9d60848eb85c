// SPDX-License-Identifier: Apache-2.0
// What was answered and how long it took; kept in a file, a run goes on where it stopped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eval/arms.h"
#include "fovea/result.h"
#include "kept/kept_lines.h"

namespace fovea::eval {

struct Record {
  size_t question = 0;
  std::string answer;
  bool right = false;
  std::optional<double> covered;  // share of the evidence in level-0 cells, where it is known
  int64_t tokens = 0;
  int64_t patches = 0;
  // Keys and values that the answer's conversation held at its end; runs of earlier programs do not
  // know.
  std::optional<int64_t> kv_bytes;
};

struct Timing {
  size_t question = 0;
  double first_token_ms = 0;
  double answer_ms = 0;
};

// A JSONL file: a line with the settings of the run, then one line for each (arm, budget,
// question), and one for each that was timed. Threads may add at once.
class Records {
 public:
  // Opens the file and reads what it holds, or begins it; without a path nothing is kept. No other
  // run may have it until this one ends. An error says so, or that the file belongs to a run with
  // other settings (by their name), or which line is bad; the file is as it was then.
  static Result<std::unique_ptr<Records>> open(const std::string& path,
                                               const std::string& settings_json, size_t questions);

  // All records of a group in one write, so that a group is there or not.
  Status add(const Setting& setting, const std::vector<Record>& records);
  Status add(const Setting& setting, const Timing& timing);

  bool has(const Setting& setting, size_t begin, size_t end) const;
  bool has_timing(const Setting& setting, size_t question) const;
  // By the number of the question.
  std::vector<Record> of(const Setting& setting) const;
  std::vector<Timing> timings_of(const Setting& setting) const;

 private:
  using Key = std::pair<std::string, int>;  // arm, budget

  Records() = default;
  bool read_line(const std::string& line, size_t questions);
  Status write(const std::string& lines);

  std::unique_ptr<kept::KeptLines> file_;  // none: nothing is kept
  mutable std::mutex mutex_;
  std::map<Key, std::map<size_t, Record>> records_;
  std::map<Key, std::map<size_t, Timing>> timings_;
};

}  // namespace fovea::eval
