// SPDX-License-Identifier: Apache-2.0
// Whether JSON has a text as it is: no character that JSON forbids or writes otherwise, and none
// beyond ASCII. Pictures are megabytes of such text, and everything else waits for this.
#pragma once

#include <string_view>

namespace fovea::serve {

bool is_as_written(std::string_view text);
bool is_as_written_reference(std::string_view text);

}  // namespace fovea::serve
