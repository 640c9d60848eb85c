// SPDX-License-Identifier: Apache-2.0
// What becomes of some keys of a layer: which stay, which go, and which become one.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea {

// A row is a key and its value. One that several tokens become is their mean, and counts in
// attention for all of them.
struct KeptRows {
  int64_t rows = 0;
  std::vector<int32_t> row_of;  // of each token; kForgotten: none. Numbered by their first token

  static constexpr int32_t kForgotten = -1;
};

}  // namespace fovea
