// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/base64.h"

namespace fovea::serve {

size_t decode_base64(std::string_view text, uint8_t* bytes) {
  const size_t done = decode_base64_vectors(text, bytes);
  return done + decode_base64_reference(text.substr(done), bytes + done / 4 * 3);
}

}  // namespace fovea::serve
