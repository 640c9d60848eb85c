// SPDX-License-Identifier: Apache-2.0
#include "resample/parts.h"

#include <array>

#include "base/check.h"
#include "ops/matmul.h"

namespace fovea {

Matrix WeightReader::matrix(const std::string& name) {
  if (error_) return {};
  Result<Matrix> matrix = source_.matrix(name);
  if (!matrix) return error_ = matrix.error(), Matrix();
  return *std::move(matrix);
}

Buffer<float> WeightReader::values(const std::string& name) {
  if (error_) return {};
  Result<Buffer<float>> values = source_.values(name);
  if (!values) return error_ = values.error(), Buffer<float>();
  return *std::move(values);
}

CrossLinear WeightReader::linear(const std::string& name, bool bias) {
  return {matrix(name + ".weight"), bias ? values(name + ".bias") : Buffer<float>()};
}

CrossNorm WeightReader::norm(const std::string& name, bool bias) {
  return {values(name + ".weight"), bias ? values(name + ".bias") : Buffer<float>()};
}

void apply(Threads& threads, const CrossLinear& linear, StateRows x, float* y, bool add) {
  matmul(threads, x.values, x.count,
         {.weights = &linear.weight, .bias = linear.bias.data(), .y = y, .accumulate = add});
}

void append_keys(Threads& threads, const CrossLinear& key, const CrossLinear& value, StateRows x,
                 Buffer<float>& wide, KeyValues& kv) {
  const int64_t width = key.out();
  FOVEA_CHECK(static_cast<int64_t>(wide.size()) >= 2 * width * x.count);
  float* keys = wide.data();
  float* values = keys + width * x.count;
  const std::array products = {
      Product{.weights = &key.weight, .bias = key.bias.data(), .y = keys},
      Product{.weights = &value.weight, .bias = value.bias.data(), .y = values}};
  matmul(threads, x.values, 0, x.count, products);
  kv.append(threads, keys, width, values, width, x.count);
}

}  // namespace fovea
