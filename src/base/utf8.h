// SPDX-License-Identifier: Apache-2.0
// Foreign bytes as UTF-8: what is valid, and what a terminal may be shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fovea {

// The bytes of the longest beginning that is valid UTF-8; text.size() when all of it is.
size_t utf8_valid_bytes(std::string_view text);

// The text with everything that is not printable written out: control characters and bytes that are
// not UTF-8 as \xNN, characters that change the direction or the line of a text as \u{NNNN}.
std::string printable(std::string_view text);

// The same for a text of at most `most` characters: of a longer one both ends, with " ... "
// between.
// "\n", "\r" and "\t" become spaces.
std::string printable_line(std::string_view text, size_t most);

}  // namespace fovea
