// SPDX-License-Identifier: Apache-2.0
// A JSONL file that a run keeps its results in, so that the same run can go on where it stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fovea/result.h"

namespace fovea::kept {

// How messages name the file and who writes it, and how its lines are known.
struct LineKind {
  std::string flag;         // "--resume"
  std::string command;      // "fovea eval"
  std::string line_begins;  // of every line but the first
};

// The first line holds the settings of the run, {"settings": ...}; all others are appended whole.
class KeptLines {
 public:
  // Takes a line of the file; false where it is none of the run's. An error says what is wrong with
  // it otherwise.
  using TakeLine = std::function<Result<bool>(const std::string& line)>;

  // Opens the file and reads what it holds, or begins it. No other run may have it until this one
  // ends. An error says so, or that the file belongs to a run with other settings (by their name),
  // or which line is bad; the file is as it was then.
  static Result<std::unique_ptr<KeptLines>> open(const std::string& path, const LineKind& kind,
                                                 const std::string& settings_json,
                                                 const TakeLine& take_line);
  ~KeptLines();
  KeptLines(const KeptLines&) = delete;
  KeptLines& operator=(const KeptLines&) = delete;

  // Whole lines, with their ends; all of them are in the file then, or none is. Nothing can be
  // appended after that failed.
  Status append(const std::string& lines);

 private:
  KeptLines(std::string path, LineKind kind) : path_(std::move(path)), kind_(std::move(kind)) {}
  Status open_file();
  Status read(const std::string& settings_json, const TakeLine& take_line);
  Status read_header(const std::string& line, const std::string& settings_json) const;
  Status read_line(const std::string& line, int64_t number, const TakeLine& take_line) const;
  Status end_with_whole_lines(const std::string& rest, const std::string& header, int64_t lines);
  std::string name() const;  // "--resume FILE"
  Error not_ours() const;
  Error bad_line(const std::string& line, int64_t number) const;

  std::string path_;
  LineKind kind_;
  int fd_ = -1;
  int64_t bytes_ = 0;            // of whole lines in the file
  std::optional<Error> broken_;  // why nothing more can be written
};

}  // namespace fovea::kept
