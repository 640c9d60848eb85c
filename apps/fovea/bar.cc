// SPDX-License-Identifier: Apache-2.0
#include "fovea/bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace fovea::app {

Bar::Bar(const Common& common) : show_(!common.quiet && isatty(STDERR_FILENO) != 0) {}

Bar::~Bar() {
  if (show_) to_stderr("\r\x1b[K");
}

void Bar::draw(const char* what, size_t done, size_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (!show_ || (done < total && now - drawn_ < std::chrono::milliseconds(100))) return;
  if (done < first_ || what != what_) {
    start_ = now;
    first_ = done;
    what_ = what;
  }
  drawn_ = now;
  constexpr size_t kWidth = 30;
  const size_t filled = total > 0 ? done * kWidth / total : 0;
  const double passed_s = std::chrono::duration<double>(now - start_).count();
  std::string left;
  if (done > first_ && done < total)
    left = fmt::format(", {:.0f} s left", passed_s * static_cast<double>(total - done) /
                                              static_cast<double>(done - first_));
  tell("\r\x1b[K{} [{:-<{}}] {}/{}{}", what, std::string(filled, '#'), kWidth, done, total, left);
}

}  // namespace fovea::app
