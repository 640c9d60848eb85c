// SPDX-License-Identifier: Apache-2.0
// The data of data URLs: base64 of both alphabets (RFC 4648).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace fovea::serve {

// The value of a character; 64 where it has none.
uint8_t sextet_of(char c);

// `text` is without padding, and its length is none of 4 n + 1. False where it holds a foreign
// character; `bytes` is worth nothing then.
bool decode_base64(std::string_view text, std::vector<uint8_t>& bytes);
bool decode_base64_reference(std::string_view text, std::vector<uint8_t>& bytes);

// As many of the text's first characters as fill vectors, into their bytes: how many that were, a
// multiple of 4, or -1 where one of them is foreign. bytes: [text.size() / 4 * 3]
int64_t decode_base64_vectors(std::string_view text, uint8_t* bytes);

}  // namespace fovea::serve
