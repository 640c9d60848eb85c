// SPDX-License-Identifier: Apache-2.0
// Ends a text where a stop string appears in it, while it streams.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"

namespace fovea {

// Text goes in as it is made and comes out as soon as it cannot be part of a stop string. The first
// stop string to be complete ends the text before its beginning (of two that end together the
// longer one), however the text was cut into pieces.
class StopStrings {
 public:
  // An empty string among them is an error; none at all is fine.
  static Result<StopStrings> make(std::vector<std::string> stops);

  // More text; gives what may be shown of it and of what was held back.
  std::string add(std::string_view text);
  // The text is over; gives what was held back.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  size_t bytes_to_hold() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace fovea
