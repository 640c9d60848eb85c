// SPDX-License-Identifier: Apache-2.0
// Text from stdin, which may have no end.
#pragma once

#include <cstddef>
#include <string>

#include "fovea/result.h"

namespace fovea::app {

inline constexpr size_t kMostQuestionBytes = size_t{16} << 20;

// Lines of at most `most_bytes`, without their ends.
class StdinLines {
 public:
  explicit StdinLines(size_t most_bytes) : most_bytes_(most_bytes) {}
  Result<bool> next(std::string& line);  // false: there are no more

 private:
  size_t most_bytes_;
  std::string held_;  // read, and not handed out yet
  bool ended_ = false;
};

// Everything on stdin, at most `most_bytes`.
Result<std::string> stdin_text(size_t most_bytes);

}  // namespace fovea::app
