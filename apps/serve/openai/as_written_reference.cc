// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "serve/openai/as_written.h"

namespace fovea::serve {

bool is_as_written_reference(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte >= 0x7f || c == '\\' || c == '"';
  });
}

}  // namespace fovea::serve
