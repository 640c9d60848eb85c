// SPDX-License-Identifier: Apache-2.0
#include "fovea/stdin_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fovea::app {
namespace {

// Appends what is there to read; false at the end.
Result<bool> read_more(std::string& text) {
  constexpr size_t kStep = size_t{1} << 16;
  const size_t held = text.size();
  text.resize(held + kStep);
  ssize_t got = 0;
  do got = ::read(STDIN_FILENO, text.data() + held, kStep);
  while (got < 0 && errno == EINTR);
  text.resize(held + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return bad_input(fmt::format("cannot read stdin: {}", std::strerror(errno)));
  return got > 0;
}

Error too_long(const char* what, size_t most_bytes) {
  return bad_input(
      fmt::format("{} has more than {} bytes, the most that are read", what, most_bytes));
}

}  // namespace

Result<bool> StdinLines::next(std::string& line) {
  size_t seen = 0;  // of what is held, without a line's end
  size_t end = held_.find('\n');
  while (end == std::string::npos && !ended_) {
    seen = held_.size();
    if (seen > most_bytes_) return too_long("a line on stdin", most_bytes_);
    const auto more = read_more(held_);
    if (!more) return more.error();
    ended_ = !*more;
    end = held_.find('\n', seen);
  }
  if (end == std::string::npos && held_.empty()) return false;
  line = held_.substr(0, end);
  held_.erase(0, end == std::string::npos ? end : end + 1);
  if (line.size() > most_bytes_) return too_long("a line on stdin", most_bytes_);
  return true;
}

Result<std::string> stdin_text(size_t most_bytes) {
  std::string text;
  for (bool more = true; more;) {
    const auto read = read_more(text);
    if (!read) return read.error();
    more = *read;
    if (text.size() > most_bytes) return too_long("the text on stdin", most_bytes);
  }
  return text;
}

}  // namespace fovea::app
