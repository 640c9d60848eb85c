// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_cuda.h"

#include <vector>

#include "base/check.h"

namespace fovea {
namespace {

const bf16* values_of(const Matrix& matrix) {
  FOVEA_CHECK(matrix.format() == WeightFormat::kBf16);
  return static_cast<const bf16*>(matrix.values());
}

size_t count_of(const Matrix& matrix) {
  return static_cast<size_t>(matrix.rows()) * static_cast<size_t>(matrix.cols());
}

Status upload_bias(Stream& stream, const std::vector<float>& bias, DeviceLinear& linear) {
  if (bias.empty()) return Done{};
  FOVEA_CHECK(static_cast<int>(bias.size()) == linear.n);
  std::vector<bf16> rounded;
  bool exact = true;
  for (const float value : bias) {
    rounded.push_back(to_bf16(value));
    exact = exact && to_float(rounded.back()) == value;
  }
  if (auto made = linear.bias.allocate(bias.size()); !made) return made;
  stream.upload(linear.bias.data(), bias.data(), bias.size());
  if (exact) {
    if (auto made = linear.short_bias.allocate(bias.size()); !made) return made;
    stream.upload(linear.short_bias.data(), rounded.data(), rounded.size());
  }
  return stream.wait();
}

}  // namespace

Status upload_values(Stream& stream, const Buffer<float>& values, DeviceMemory<float>& memory) {
  if (auto made = memory.allocate(values.size()); !made) return made;
  stream.upload(memory.data(), values.data(), values.size());
  return stream.wait();
}

Status upload_linear(Stream& stream, std::span<const LinearPart> parts, DeviceLinear& linear) {
  int64_t rows = 0;
  for (const LinearPart& part : parts) rows += part.weight->rows();
  linear.n = static_cast<int>(rows);
  linear.k = static_cast<int>(parts.front().weight->cols());
  if (auto made = linear.weight.allocate(static_cast<size_t>(rows * linear.k)); !made) return made;
  bf16* to = linear.weight.data();
  for (const LinearPart& part : parts) {
    FOVEA_CHECK(part.weight->cols() == linear.k);
    stream.upload(to, values_of(*part.weight), count_of(*part.weight));
    to += count_of(*part.weight);
  }
  std::vector<float> bias;
  for (const LinearPart& part : parts)
    if (part.bias != nullptr) bias.insert(bias.end(), part.bias->begin(), part.bias->end());
  if (auto done = upload_bias(stream, bias, linear); !done) return done;
  return stream.wait();
}

Status upload_linear(Stream& stream, std::span<const float> weights, int n,
                     const Buffer<float>& bias, DeviceLinear& linear) {
  linear.n = n;
  linear.k = static_cast<int>(weights.size()) / n;
  std::vector<bf16> rounded;
  for (const float value : weights) rounded.push_back(to_bf16(value));
  if (auto made = linear.weight.allocate(rounded.size()); !made) return made;
  stream.upload(linear.weight.data(), rounded.data(), rounded.size());
  if (auto done = upload_bias(stream, {bias.begin(), bias.end()}, linear); !done) return done;
  return stream.wait();
}

Status upload_gate_up(Stream& stream, const Matrix& gate, const Matrix& up, DeviceLinear& linear) {
  FOVEA_CHECK(gate.rows() == up.rows() && gate.cols() == up.cols());
  const LinearPart parts[] = {{&gate}, {&up}};
  DeviceLinear apart;
  if (auto done = upload_linear(stream, parts, apart); !done) return done;
  if (auto made = linear.weight.allocate(apart.weight.size()); !made) return made;
  linear.n = apart.n;
  linear.k = apart.k;
  pack_gate_up_cuda(stream.get(), apart.weight.data(), apart.weight.data() + count_of(gate),
                    static_cast<int>(gate.rows()), linear.k, linear.weight.data());
  return stream.wait();
}

}  // namespace fovea
