// SPDX-License-Identifier: Apache-2.0
// The data of data URLs: base64 of both alphabets (RFC 4648).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fovea::serve {

// The value of a character; 64 where it has none.
uint8_t sextet_of(char c);

// How many bytes so many characters are, without padding; their number is none of 4 n + 1.
constexpr size_t bytes_of_base64(size_t characters) {
  return characters / 4 * 3 + characters % 4 * 3 / 4;
}

// The characters before the first foreign one -> bytes; how many characters those are. `text` is
// without padding. `bytes` may begin where the text does: what is written lies before what has not
// been read, so from the foreign character on the text is as it was.
// bytes: [bytes_of_base64(text.size())]
size_t decode_base64(std::string_view text, uint8_t* bytes);
size_t decode_base64_reference(std::string_view text, uint8_t* bytes);

// The same of as many of the text's first characters as fill vectors without a foreign one: a
// multiple of 4.
size_t decode_base64_vectors(std::string_view text, uint8_t* bytes);

}  // namespace fovea::serve
