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

Status upload_bias(WeightUploads& uploads, const std::vector<float>& bias, DeviceLinear& linear) {
  if (bias.empty()) return Done{};
  FOVEA_CHECK(static_cast<int>(bias.size()) == linear.n);
  std::vector<bf16> rounded;
  bool exact = true;
  for (const float value : bias) {
    rounded.push_back(to_bf16(value));
    exact = exact && to_float(rounded.back()) == value;
  }
  if (auto made = linear.bias.allocate(bias.size()); !made) return made;
  if (auto put = uploads.put_now(linear.bias.data(), bias.data(), bias.size()); !put) return put;
  if (!exact) return Done{};
  if (auto made = linear.short_bias.allocate(bias.size()); !made) return made;
  return uploads.put_now(linear.short_bias.data(), rounded.data(), rounded.size());
}

class Settled {
 public:
  explicit Settled(WeightUploads& uploads) : uploads_(uploads) {}
  ~Settled() { (void)uploads_.settle(); }
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;

 private:
  WeightUploads& uploads_;
};

}  // namespace

Status upload_values(WeightUploads& uploads, const Buffer<float>& values,
                     DeviceMemory<float>& memory) {
  if (auto made = memory.allocate(values.size()); !made) return made;
  return uploads.put_now(memory.data(), values.data(), values.size());
}

Status upload_linear(WeightUploads& uploads, std::span<const LinearPart> parts,
                     DeviceLinear& linear) {
  int64_t rows = 0;
  for (const LinearPart& part : parts) rows += part.weight->rows();
  linear.n = static_cast<int>(rows);
  linear.k = static_cast<int>(parts.front().weight->cols());
  if (auto made = linear.weight.allocate(static_cast<size_t>(rows * linear.k)); !made) return made;
  bf16* to = linear.weight.data();
  for (const LinearPart& part : parts) {
    FOVEA_CHECK(part.weight->cols() == linear.k);
    if (auto put = uploads.put(to, values_of(*part.weight), count_of(*part.weight)); !put)
      return put;
    to += count_of(*part.weight);
  }
  std::vector<float> bias;
  for (const LinearPart& part : parts)
    if (part.bias != nullptr) bias.insert(bias.end(), part.bias->begin(), part.bias->end());
  return upload_bias(uploads, bias, linear);
}

Status upload_linear(WeightUploads& uploads, std::span<const float> weights, int n,
                     const Buffer<float>& bias, DeviceLinear& linear) {
  linear.n = n;
  linear.k = static_cast<int>(weights.size()) / n;
  std::vector<bf16> rounded;
  for (const float value : weights) rounded.push_back(to_bf16(value));
  if (auto made = linear.weight.allocate(rounded.size()); !made) return made;
  if (auto put = uploads.put_now(linear.weight.data(), rounded.data(), rounded.size()); !put)
    return put;
  return upload_bias(uploads, {bias.begin(), bias.end()}, linear);
}

Status upload_gate_up(WeightUploads& uploads, const Matrix& gate, const Matrix& up,
                      DeviceLinear& linear) {
  FOVEA_CHECK(gate.rows() == up.rows() && gate.cols() == up.cols());
  const LinearPart parts[] = {{&gate}, {&up}};
  DeviceLinear apart;
  // However this ends: before the memory goes, threads have enqueued what they write there.
  const Settled settled_at_end(uploads);
  if (auto done = upload_linear(uploads, parts, apart); !done) return done;
  if (auto settled = uploads.settle(); !settled) return settled;
  if (auto made = linear.weight.allocate(apart.weight.size()); !made) return made;
  linear.n = apart.n;
  linear.k = apart.k;
  pack_gate_up_cuda(uploads.stream().get(), apart.weight.data(),
                    apart.weight.data() + count_of(gate), static_cast<int>(gate.rows()), linear.k,
                    linear.weight.data());
  return Done{};
}

}  // namespace fovea
