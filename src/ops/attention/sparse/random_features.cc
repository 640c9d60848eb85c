// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/sparse/random_features.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace fovea {
namespace {

std::vector<double> normal_vector(int size, std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(size));
  for (double& value : values) value = normal(random);
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void scale_to(std::vector<double>& vector, double length) {
  const double factor = length / std::sqrt(dot(vector, vector));
  for (double& value : vector) value *= factor;
}

}  // namespace

std::vector<float> random_directions(int features, int head_dim) {
  std::mt19937 random(20'200'930);
  std::vector<float> directions;
  std::vector<std::vector<double>> group;
  for (int j = 0; j < features; ++j) {
    if (j % head_dim == 0) group.clear();
    std::vector<double> direction = normal_vector(head_dim, random);
    for (const std::vector<double>& other : group) {
      const double along = dot(direction, other);
      for (size_t d = 0; d < direction.size(); ++d) direction[d] -= along * other[d];
    }
    scale_to(direction, 1);
    group.push_back(direction);
    const std::vector<double> long_as = normal_vector(head_dim, random);
    scale_to(direction, std::sqrt(dot(long_as, long_as)));
    directions.insert(directions.end(), direction.begin(), direction.end());
  }
  return directions;
}

int64_t feature_bytes(int kv_heads, int head_dim, int features) {
  const int64_t sums = int64_t{kv_heads} * features * (head_dim + 2);
  const int64_t directions = 2 * int64_t{features} * head_dim;
  return (sums + directions) * static_cast<int64_t>(sizeof(float));
}

}  // namespace fovea
