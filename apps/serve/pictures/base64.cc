// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/base64.h"

#include <algorithm>

namespace fovea::serve {

bool decode_base64(std::string_view text, std::vector<uint8_t>& bytes) {
  const size_t rest = text.size() % 4;
  bytes.resize(text.size() / 4 * 3 + (rest == 0 ? 0 : rest - 1));
  const int64_t done = decode_base64_vectors(text, bytes.data());
  if (done < 0) return false;
  std::vector<uint8_t> last;
  if (!decode_base64_reference(text.substr(static_cast<size_t>(done)), last)) return false;
  std::copy(last.begin(), last.end(), bytes.begin() + done / 4 * 3);
  return true;
}

}  // namespace fovea::serve
