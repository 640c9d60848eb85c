// SPDX-License-Identifier: Apache-2.0
// Merging by a queue of pairs that touch: the cheapest pair becomes one, and its pairs with its
// neighbours are counted anew. A pair whose groups have changed since is passed over.
#include <algorithm>
#include <array>
#include <cmath>
#include <queue>

#include "base/buffer.h"
#include "memory/forget/choices.h"
#include "memory/forget/row_distance.h"

namespace fovea {
namespace {

struct Pair {
  float cost = 0;
  int32_t a = 0;  // a < b
  int32_t b = 0;
  int32_t changes = 0;  // of both, when this was counted

  // A queue gives its greatest first: the cheapest, then the first.
  bool operator<(const Pair& other) const {
    if (cost != other.cost) return cost > other.cost;
    return a != other.a ? a > other.a : b > other.b;
  }
};

class Merging {
 public:
  Merging(const ForgetScene& scene, const ForgetLayer& layer)
      : tokens_(static_cast<size_t>(scene.tokens())),
        width_(static_cast<size_t>(2 * layer.keys.kv_heads * layer.keys.head_dim)),
        sums_(tokens_ * width_),
        sizes_(tokens_, 1),
        changes_(tokens_, 0),
        touching_(tokens_),
        group_(tokens_) {
    copy_rows(scene, layer);
    for (size_t t = 0; t < tokens_; ++t) group_[t] = static_cast<int32_t>(t);
    std::vector<Pair> pairs;
    pairs.reserve(scene.links.size());
    for (const TokenLink& link : scene.links) {
      const int32_t a = std::min(link.a, link.b);
      const int32_t b = std::max(link.a, link.b);
      touching_[static_cast<size_t>(a)].push_back(b);
      touching_[static_cast<size_t>(b)].push_back(a);
      pairs.push_back(pair(a, b));
    }
    queue_ = std::priority_queue<Pair>(std::less<Pair>(), std::move(pairs));
  }

  void merge_to(int64_t rows) {
    auto left = static_cast<int64_t>(tokens_);
    while (left > rows && !queue_.empty()) {
      const Pair next = queue_.top();
      queue_.pop();
      if (find(next.a) != next.a || find(next.b) != next.b ||
          next.changes != changes(next.a, next.b))
        continue;
      merge(next.a, next.b);
      --left;
    }
  }

  std::vector<int32_t> groups() {
    std::vector<int32_t> all(tokens_);
    for (size_t t = 0; t < tokens_; ++t) all[t] = find(static_cast<int32_t>(t));
    return all;
  }

 private:
  // Keys of all heads, then values, each over their mean square: both count alike.
  void copy_rows(const ForgetScene& scene, const ForgetLayer& layer) {
    const auto dim = static_cast<size_t>(layer.keys.head_dim);
    const size_t half = width_ / 2;
    std::array<double, 2> squares{};
    for (size_t t = 0; t < tokens_; ++t) {
      float* row = sums_.data() + t * width_;
      for (int head = 0; head < layer.keys.kv_heads; ++head, row += dim) {
        scene.read_key(layer, head, static_cast<int64_t>(t), row);
        scene.read_value(layer, head, static_cast<int64_t>(t), row + half);
      }
      for (size_t i = 0; i < 2; ++i) {
        const float* part = sums_.data() + t * width_ + i * half;
        squares[i] += double{squares_apart(part, 1, part, 0, static_cast<int64_t>(half))};
      }
    }
    std::array<float, 2> scales{};
    for (size_t i = 0; i < 2; ++i)
      scales[i] = squares[i] > 0 ? static_cast<float>(1 / std::sqrt(squares[i])) : 0;
    for (size_t i = 0; i < 2 * tokens_; ++i)
      for (size_t d = 0; d < half; ++d) sums_[i * half + d] *= scales[i % 2];
  }

  int32_t changes(int32_t a, int32_t b) const {
    return changes_[static_cast<size_t>(a)] + changes_[static_cast<size_t>(b)];
  }

  int32_t find(int32_t token) {
    while (group_[static_cast<size_t>(token)] != token) {
      int32_t& up = group_[static_cast<size_t>(token)];
      up = group_[static_cast<size_t>(up)];
      token = up;
    }
    return token;
  }

  Pair pair(int32_t a, int32_t b) const {
    const float* row_a = sums_.data() + static_cast<size_t>(a) * width_;
    const float* row_b = sums_.data() + static_cast<size_t>(b) * width_;
    const float size_a = sizes_[static_cast<size_t>(a)];
    const float size_b = sizes_[static_cast<size_t>(b)];
    const float distance =
        squares_apart(row_a, 1 / size_a, row_b, 1 / size_b, static_cast<int64_t>(width_));
    return {distance * size_a * size_b / (size_a + size_b), a, b, changes(a, b)};
  }

  void merge(int32_t a, int32_t b) {
    const auto into = static_cast<size_t>(a);
    const auto from = static_cast<size_t>(b);
    for (size_t i = 0; i < width_; ++i) sums_[into * width_ + i] += sums_[from * width_ + i];
    sizes_[into] += sizes_[from];
    group_[from] = a;
    // Above all that a pair of either was counted with.
    changes_[into] += changes_[from] + 1;
    std::vector<int32_t> around = std::move(touching_[into]);
    around.insert(around.end(), touching_[from].begin(), touching_[from].end());
    touching_[from] = {};
    for (int32_t& other : around) other = find(other);
    std::sort(around.begin(), around.end());
    around.erase(std::unique(around.begin(), around.end()), around.end());
    std::erase(around, a);
    touching_[into] = std::move(around);
    for (const int32_t other : touching_[into])
      queue_.push(pair(std::min(a, other), std::max(a, other)));
  }

  const size_t tokens_;
  const size_t width_;
  Buffer<float> sums_;  // [tokens][width]: of a group, at its first token
  std::vector<float> sizes_;
  std::vector<int32_t> changes_;
  std::vector<std::vector<int32_t>> touching_;
  std::vector<int32_t> group_;  // towards its first token
  std::priority_queue<Pair> queue_;
};

}  // namespace

KeptRows merge_rows(const ForgetScene& scene, const ForgetLayer& layer, int64_t rows) {
  Merging merging(scene, layer);
  merging.merge_to(rows);
  return rows_of_groups(merging.groups());
}

}  // namespace fovea
