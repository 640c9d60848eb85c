// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same with every compiler: splitmix64, and ranges by multiplication.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace fovea {

// What draws from a stream of its own does not move what others draw.
enum class CardStream : uint64_t { kLayout = 1, kBackground, kDistractors, kQuestions };

class CardRandom {
 public:
  CardRandom(uint64_t seed, CardStream stream)
      : state_(mix(mix(seed) + static_cast<uint64_t>(stream))) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    return mix(state_);
  }
  int below(int end) {
    return static_cast<int>(((next() >> 32) * static_cast<uint64_t>(end)) >> 32);
  }
  int between(int least, int most) { return least + below(most - least + 1); }
  bool coin() { return (next() >> 63) != 0; }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (int i = static_cast<int>(items.size()) - 1; i > 0; --i)
      std::swap(items[static_cast<size_t>(i)], items[static_cast<size_t>(below(i + 1))]);
  }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int>(items.size())))];
  }

 private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

}  // namespace fovea
