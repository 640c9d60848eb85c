// SPDX-License-Identifier: Apache-2.0
// How far values are from those they stand for.
#pragma once

#include <cmath>
#include <span>

namespace fovea {

struct Closeness {
  double cosine = 0;
  double rmse = 0;
};

inline Closeness closeness(std::span<const float> got, std::span<const float> expected) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  double squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    dot += double{got[i]} * expected[i];
    aa += double{got[i]} * got[i];
    bb += double{expected[i]} * expected[i];
    squares += std::pow(double{got[i]} - expected[i], 2);
  }
  return {dot / std::sqrt(aa * bb), std::sqrt(squares / static_cast<double>(got.size()))};
}

}  // namespace fovea
