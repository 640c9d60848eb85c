// SPDX-License-Identifier: Apache-2.0
// One line a request, on stderr.
#pragma once

#include <string>

#include "fovea/answer.h"

namespace fovea::serve {

// The status in the log of a request whose client left before there was anything to answer, as
// nginx has it; no client sees it.
inline constexpr int kClientLeft = 499;

enum class LogForm { kOff, kText, kJson };

struct LogLine {
  std::string client;
  std::string method;
  std::string path;
  int status = 0;
  double ms = 0;
  const Usage* usage = nullptr;  // of an answer
  std::string finish;            // ... how it ended
  std::string error;             // what went wrong; may name files, which clients are not told
};

void write_log(LogForm form, const LogLine& line);

}  // namespace fovea::serve
