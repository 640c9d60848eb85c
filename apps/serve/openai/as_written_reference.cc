// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "serve/openai/as_written.h"

namespace fovea::serve {

size_t as_written_reference(std::string_view text) {
  const auto odd = std::find_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte >= 0x7f || c == '\\' || c == '"';
  });
  return static_cast<size_t>(odd - text.begin());
}

}  // namespace fovea::serve
