// SPDX-License-Identifier: Apache-2.0
#include "memory/forget/choices.h"

#include <algorithm>
#include <numeric>

namespace fovea {

KeptRows rows_of_groups(std::span<const int32_t> group_of) {
  KeptRows kept;
  kept.row_of.assign(group_of.size(), KeptRows::kForgotten);
  std::vector<int32_t> number(group_of.size() + 1, KeptRows::kForgotten);
  for (size_t t = 0; t < group_of.size(); ++t) {
    if (group_of[t] < 0) continue;
    int32_t& row = number[static_cast<size_t>(group_of[t])];
    if (row < 0) row = static_cast<int32_t>(kept.rows++);
    kept.row_of[t] = row;
  }
  return kept;
}

KeptRows rows_of_tokens(std::span<const int32_t> tokens, int64_t count) {
  KeptRows kept;
  kept.row_of.assign(static_cast<size_t>(count), KeptRows::kForgotten);
  for (const int32_t token : tokens)
    kept.row_of[static_cast<size_t>(token)] = static_cast<int32_t>(kept.rows++);
  return kept;
}

std::vector<int32_t> greatest(std::span<const float> mass, int64_t rows) {
  std::vector<int32_t> order(mass.size());
  std::iota(order.begin(), order.end(), 0);
  std::nth_element(order.begin(), order.begin() + rows, order.end(), [&](int32_t a, int32_t b) {
    const float mass_a = mass[static_cast<size_t>(a)];
    const float mass_b = mass[static_cast<size_t>(b)];
    return mass_a != mass_b ? mass_a > mass_b : a < b;
  });
  order.resize(static_cast<size_t>(rows));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace fovea
