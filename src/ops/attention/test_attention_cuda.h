// SPDX-License-Identifier: Apache-2.0
// What the tests of attention on the GPU share: random sequences, what the reference makes of them,
// and the kernels by themselves.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "device/cuda/test_device.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_kernels_cuda.h"
#include "ops/test_plain_keys.h"

namespace fovea {

struct SequenceSize {
  int queries;
  int keys;
  bool bias = false;
};

struct BatchShape {
  int heads;
  int kv_heads;
  int head_dim;
  std::vector<SequenceSize> sequences;
  bool causal = false;
  float spread = 1;  // 12: scores beyond +-80, whose exponentials overflow
};

inline std::string name(const BatchShape& shape) {
  std::string text = std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) +
                     " heads of " + std::to_string(shape.head_dim) +
                     (shape.causal ? ", causal" : "") + (shape.spread > 1 ? ", large" : "");
  for (const SequenceSize& size : shape.sequences)
    text += ", " + std::to_string(size.queries) + " x " + std::to_string(size.keys) +
            (size.bias ? " with bias" : "");
  return text;
}

inline std::vector<bf16> random_bf16(size_t count, std::mt19937& random, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<bf16> values(count);
  for (bf16& value : values) value = to_bf16(normal(random));
  return values;
}

inline std::vector<float> widened(const std::vector<bf16>& values) {
  std::vector<float> wide(values.size());
  std::transform(values.begin(), values.end(), wide.begin(), to_float);
  return wide;
}

// The K/V of one sequence, on the host. Beyond its keys lie NaN, which nobody may read into sums.
struct SequenceOnHost {
  int capacity;
  std::vector<bf16> keys;
  std::vector<bf16> values;
  std::vector<float> bias;
};

struct SequenceMemory {
  DeviceMemory<bf16> keys;
  DeviceMemory<bf16> values;
  DeviceMemory<float> bias;
};

class AttentionCudaTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(workspace_.open(stream(), size_t{1} << 20));
    has_tensor_cores_ = kEmulated || workspace_.tensor_cores();
  }

  // Rows of q and out are longer than their values, by what lies between them.
  static constexpr int kBetweenRows = 8;

  void make(const BatchShape& shape) {
    given_ = shape;
    shape_ = {.sequences = static_cast<int>(shape.sequences.size()),
              .heads = shape.heads,
              .kv_heads = shape.kv_heads,
              .head_dim = shape.head_dim,
              .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
              .causal = shape.causal};
    q_stride_ = shape.heads * shape.head_dim + kBetweenRows;
    host_.clear();
    memory_.clear();
    std::vector<AttentionSequence> described;
    int rows = 1;  // the first row is nobody's
    for (const SequenceSize& size : shape.sequences) {
      described.push_back(add_sequence(size, rows));
      rows += size.queries;
      shape_.max_q_count = std::max(shape_.max_q_count, size.queries);
      shape_.max_key_count = std::max(shape_.max_key_count, size.keys);
    }
    described_ = described;
    rows_ = rows + 1;
    q_ = random_bf16(static_cast<size_t>(rows_ * q_stride_), random_, shape.spread);
    q_memory_ = on_device(q_);
    sequences_ = on_device(described);
  }

  AttentionSequence add_sequence(const SequenceSize& size, int q_begin) {
    SequenceOnHost host{.capacity = size.keys + 3, .keys = {}, .values = {}, .bias = {}};
    const auto count =
        static_cast<size_t>(given_.kv_heads) * static_cast<size_t>(host.capacity * given_.head_dim);
    host.keys = random_bf16(count, random_, given_.spread);
    host.values = random_bf16(count, random_, 1);
    for (int head = 0; head < given_.kv_heads; ++head)
      for (int i = size.keys * given_.head_dim; i < host.capacity * given_.head_dim; ++i) {
        const auto at = static_cast<size_t>(head * host.capacity * given_.head_dim + i);
        host.keys[at] = host.values[at] = {0x7FFF};
      }
    std::normal_distribution<float> normal(0, 3);
    if (size.bias)
      for (int i = 0; i < size.keys; ++i) host.bias.push_back(normal(random_));
    SequenceMemory memory{on_device(host.keys), on_device(host.values), on_device(host.bias)};
    const AttentionSequence described{.q_begin = q_begin,
                                      .q_count = size.queries,
                                      .keys = memory.keys.data(),
                                      .values = memory.values.data(),
                                      .capacity = host.capacity,
                                      .key_count = size.keys,
                                      .first_query = std::max(0, size.keys - size.queries),
                                      .key_bias = size.bias ? memory.bias.data() : nullptr};
    host_.push_back(std::move(host));
    memory_.push_back(std::move(memory));
    return described;
  }

  PlainKeys kv_of(size_t sequence) const {
    const SequenceOnHost& host = host_[sequence];
    PlainKeys kv(given_.kv_heads, given_.head_dim);
    const auto keys = widened(host.keys);
    const auto values = widened(host.values);
    const int dim = given_.head_dim;
    for (int t = 0; t < given_.sequences[sequence].keys; ++t) {
      std::vector<float> k;
      std::vector<float> v;
      for (int head = 0; head < given_.kv_heads; ++head) {
        const auto at = static_cast<int64_t>(head * host.capacity + t) * dim;
        k.insert(k.end(), keys.begin() + at, keys.begin() + at + dim);
        v.insert(v.end(), values.begin() + at, values.begin() + at + dim);
      }
      kv.append(k.data(), int64_t{given_.kv_heads} * dim, v.data(), int64_t{given_.kv_heads} * dim,
                1);
    }
    return kv;
  }
  AttentionParams params_of(size_t sequence) const {
    const SequenceOnHost& host = host_[sequence];
    return {.heads = given_.heads,
            .scale = shape_.scale,
            .causal = given_.causal,
            .first_query = described_[sequence].first_query,
            .key_bias = host.bias.empty() ? nullptr : host.bias.data()};
  }

  // NaN where no sequence has a row, and between rows.
  std::vector<float> expected() const {
    std::vector<float> all(static_cast<size_t>(rows_ * q_stride_), std::nanf(""));
    const auto q = widened(q_);
    for (size_t i = 0; i < host_.size(); ++i) {
      const int64_t at = int64_t{described_[i].q_begin} * q_stride_;
      attention_reference(q.data() + at, q_stride_, described_[i].q_count, kv_of(i).view(),
                          params_of(i), all.data() + at, q_stride_);
    }
    return all;
  }

  // The weights are rounded to bf16 by the tensor cores, the results by all: a step is 2^-8 of a
  // value, half of it the largest error, and errors of weights average out.
  void expect_near(const std::vector<bf16>& got, const std::vector<float>& wanted,
                   const std::string& kernel) const {
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float value = to_float(got[i]);
      if (std::isnan(wanted[i])) {
        ASSERT_TRUE(std::isnan(value)) << kernel << " wrote between rows: " << name(given_);
        continue;
      }
      ASSERT_NEAR(value, wanted[i], 0.03f + 0.01f * std::abs(wanted[i]))
          << kernel << ", " << name(given_) << ", row " << i / static_cast<size_t>(q_stride_)
          << ", value " << i % static_cast<size_t>(q_stride_);
      error += (value - wanted[i]) * (value - wanted[i]);
      size += wanted[i] * wanted[i];
    }
    EXPECT_LE(std::sqrt(error), 5e-3 * std::sqrt(size)) << kernel << ", " << name(given_);
  }

  using Kernel = void (*)(cudaStream_t, const AttentionShape&, AttentionCall, AttentionWorkspace&);
  std::vector<bf16> run(Kernel kernel) {
    auto out = poisoned<bf16>(q_.size());
    kernel(stream(), shape_,
           attention_call(shape_, sequences_.data(), q_memory_.data(), q_stride_, out.data(),
                          q_stride_),
           workspace_);
    return on_host(out);
  }
  std::vector<bf16> run_chosen(KernelChoice choice) {
    auto out = poisoned<bf16>(q_.size());
    attention_cuda(stream(), shape_, sequences_.data(), q_memory_.data(), q_stride_, out.data(),
                   q_stride_, workspace_, choice);
    return on_host(out);
  }

  void check_tensor_cores(const std::vector<float>& wanted) {
    expect_near(run(attention_flash_cuda), wanted, "flash");
    expect_near(run(attention_short_cuda), wanted, "short");
  }

  void check_all(const BatchShape& shape) {
    make(shape);
    const auto wanted = expected();
    expect_near(run(attention_portable_cuda), wanted, "portable");
    if (shape_.max_q_count * shape.heads / shape.kv_heads <= 12)
      expect_near(run(attention_decode_cuda), wanted, "decode");
    if (has_tensor_cores_ && shape.head_dim % 8 == 0) check_tensor_cores(wanted);
    expect_near(run_chosen(KernelChoice::kBest), wanted, "best");
    expect_near(run_chosen(KernelChoice::kPortable), wanted, "portable choice");
  }

  std::mt19937 random_{17};
  BatchShape given_{};
  AttentionShape shape_;
  int64_t q_stride_ = 0;
  int64_t rows_ = 0;
  std::vector<bf16> q_;
  std::vector<SequenceOnHost> host_;
  std::vector<SequenceMemory> memory_;
  std::vector<AttentionSequence> described_;
  DeviceMemory<bf16> q_memory_;
  DeviceMemory<AttentionSequence> sequences_;
  AttentionWorkspace workspace_;
  bool has_tensor_cores_ = false;
};

}  // namespace fovea
