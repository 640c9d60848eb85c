// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same with every standard library (SplitMix64).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kept/hash_text.h"

namespace fovea::eval {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  // 0 to count - 1; the bias of the remainder is below count / 2^64.
  uint64_t below(uint64_t count) { return next() % count; }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t left = items.size(); left > 1; --left)
      std::swap(items[left - 1], items[below(left)]);
  }

 private:
  uint64_t state_;
};

using kept::hash_text;

}  // namespace fovea::eval
