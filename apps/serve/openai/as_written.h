// SPDX-License-Identifier: Apache-2.0
// How far JSON has a text as it is: up to the first character that JSON forbids or writes
// otherwise, or that is beyond ASCII; a quote is one. Pictures are megabytes of such text, and
// everything else waits for this.
#pragma once

#include <cstddef>
#include <string_view>

namespace fovea::serve {

size_t as_written(std::string_view text);
size_t as_written_reference(std::string_view text);

}  // namespace fovea::serve
