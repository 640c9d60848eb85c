// SPDX-License-Identifier: Apache-2.0
#include "language/stop_strings.h"

#include <algorithm>
#include <utility>

namespace fovea {

Result<StopStrings> StopStrings::make(std::vector<std::string> stops) {
  for (const std::string& stop : stops)
    if (stop.empty()) return bad_input("a stop string is empty; give at least one character");
  return StopStrings(std::move(stops));
}

std::string StopStrings::add(std::string_view text) {
  if (stopped_) return {};
  for (const char byte : text) {
    held_.push_back(byte);
    size_t matched = 0;
    for (const std::string& stop : stops_)
      if (held_.ends_with(stop)) matched = std::max(matched, stop.size());
    if (matched == 0) continue;
    stopped_ = true;
    held_.resize(held_.size() - matched);
    return std::exchange(held_, {});
  }
  const size_t free = held_.size() - bytes_to_hold();
  std::string shown = held_.substr(0, free);
  held_.erase(0, free);
  return shown;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

// The longest end of what is held that a stop string begins with.
size_t StopStrings::bytes_to_hold() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t bytes = std::min(held_.size(), stop.size() - 1); bytes > longest; --bytes) {
      if (held_.compare(held_.size() - bytes, bytes, stop, 0, bytes) == 0) longest = bytes;
    }
  }
  return longest;
}

}  // namespace fovea
