// SPDX-License-Identifier: Apache-2.0
#include "ops/attention_cuda.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "device/cuda/test_device.h"
#include "ops/attention.h"
#include "ops/attention_cudnn_cuda.h"
#include "ops/attention_kernels_cuda.h"

namespace fovea {
namespace {

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

std::string name(const BatchShape& shape) {
  std::string text = std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) +
                     " heads of " + std::to_string(shape.head_dim) +
                     (shape.causal ? ", causal" : "") + (shape.spread > 1 ? ", large" : "");
  for (const SequenceSize& size : shape.sequences)
    text += ", " + std::to_string(size.queries) + " x " + std::to_string(size.keys) +
            (size.bias ? " with bias" : "");
  return text;
}

std::vector<bf16> random_bf16(size_t count, std::mt19937& random, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<bf16> values(count);
  for (bf16& value : values) value = to_bf16(normal(random));
  return values;
}

std::vector<float> widened(const std::vector<bf16>& values) {
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

class AttentionCuda : public CudaTest {
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

  KeyValues kv_of(size_t sequence) const {
    const SequenceOnHost& host = host_[sequence];
    KeyValues kv(given_.kv_heads, given_.head_dim);
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
      attention_reference(q.data() + at, q_stride_, described_[i].q_count, kv_of(i), params_of(i),
                          all.data() + at, q_stride_);
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

  void check_short(const BatchShape& shape) {
    make(shape);
    if (!has_tensor_cores_) return;
    auto out = poisoned<bf16>(q_.size());
    const AttentionCall call = attention_call(shape_, sequences_.data(), q_memory_.data(),
                                              q_stride_, out.data(), q_stride_);
    row_warps_ = row_warps_ % 3 + 1;
    attention_short_cuda(stream(), shape_, call, row_warps_);
    expect_near(on_host(out), expected(), "short, " + std::to_string(16 * row_warps_) + " rows");
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
  int row_warps_ = 0;  // of check_short, by turns
};

TEST_F(AttentionCuda, EqualsTheReferenceForOneSequence) {
  for (const BatchShape& shape : std::vector<BatchShape>{
           {1, 1, 4, {{1, 1}}},
           {1, 1, 8, {{1, 2}}},
           {2, 2, 20, {{2, 3}}},
           {3, 1, 72, {{3, 17}}},
           {4, 2, 80, {{4, 9}}, true},
           {16, 8, 128, {{1, 1}}, true},
           {16, 8, 128, {{1, 300}}, true},
           {4, 4, 64, {{1, 257, true}}},
           {5, 1, 36, {{1, 500, true}}, true, 12},
           {2, 1, 128, {{5, 600}}, true},
           {6, 2, 8, {{7, 130, true}}, true},
           {8, 1, 12, {{3, 40}}},
           {2, 2, 64, {{65, 129}}},
           {1, 1, 16, {{33, 64}}},
           {2, 1, 24, {{20, 65, true}}},
           {2, 1, 128, {{33, 140}}, true},
           {1, 1, 72, {{64, 100, true}}, false, 12},
           {2, 1, 80, {{40, 96}}, true, 12},
       })
    check_all(shape);
}

TEST_F(AttentionCuda, TakesSequencesOfDifferentLengthsAtOnce) {
  check_all({4, 2, 16, {{1, 40}, {5, 5}, {0, 7}, {3, 129, true}, {1, 1}}, true});
  check_all({2, 1, 64, {{1, 200}, {1, 3}, {1, 129}}, true});
  check_all({2, 2, 32, {{70, 70}, {10, 130}}, false});
}

// Blocks of 128 rows are for problems that fill the device, which here has 4 multiprocessors.
TEST_F(AttentionCuda, EqualsTheReferenceInLargeBlocks) {
  if (!kEmulated) {
    check_all({16, 16, 64, {{2200, 300}}});
    check_all({16, 8, 128, {{1056, 1056}, {1056, 2000}, {272, 300}}, true});
    check_all({16, 16, 80, {{1500, 1500, true}}, true});
    return;
  }
  check_all({8, 8, 16, {{20, 90}}, true});
  check_all({8, 8, 64, {{130, 70}}});
  check_all({8, 8, 80, {{10, 65, true}}, true});
  check_all({16, 8, 128, {{40, 70}}, true});
}

// The rows of a block are 16, 32 or 48; its warps take 32 to 80 keys each, in one round or several.
TEST_F(AttentionCuda, EqualsTheReferenceWhereKeysAreFew) {
  for (const int keys : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 257, 272, 320})
    for (const bool causal : {false, true}) {
      check_short({2, 1, 128, {{std::min(keys, 20), keys, keys % 2 == 0}}, causal});
      check_short({1, 1, 64, {{std::min(keys, 33), keys, keys % 2 != 0}}, causal});
    }
  // All rows of a causal sequence, which see from one key to all.
  check_short({2, 1, 128, {{100, 100}}, true});
  check_short({1, 1, 64, {{272, 272, true}}, true});
  for (const int group : {1, 2, 3, 8})
    for (const int head_dim : {8, 40, 64, 72, 128})
      check_short(
          {group, 1, head_dim, {{17, 70}, {5, 33, true}, {0, 9}, {1, 200}}, group % 2 == 0});
  for (const int head_dim : {32, 64, 80, 128})
    check_short({6, 3, head_dim, {{30, 400}, {40, 90, true}, {1, 1}}, head_dim > 64, 12});
}

TEST_F(AttentionCuda, TakesFewKeysInRoundsWhereMoreComeThanWereSaid) {
  for (const int head_dim : {64, 128}) {
    make({2, 1, head_dim, {{9, 500, true}, {20, 700}}, true});
    shape_.max_key_count = 100;
    if (has_tensor_cores_) expect_near(run(attention_short_cuda), expected(), "short");
  }
}

TEST_F(AttentionCuda, FewKeysAreForSmallProblems) {
  const auto takes = [&](const BatchShape& shape) {
    make(shape);
    return attention_short_takes(
        shape_,
        attention_call(shape_, sequences_.data(), q_memory_.data(), q_stride_, nullptr, q_stride_),
        workspace_);
  };
  EXPECT_TRUE(takes({2, 1, 128, {{20, 256}}, true}));
  EXPECT_FALSE(takes({2, 1, 128, {{20, 4000}}, true}));
  EXPECT_FALSE(takes({64, 64, 64, {{300, 300}}}));
}

// A graph is replayed while keys are added: the launch knows upper bounds alone.
TEST_F(AttentionCuda, ReadsTheCountsWhenItRuns) {
  make({1, 1, 16, {{70, 600}, {5, 590}}, true});
  for (const int keys : {70, 321, 590}) {
    for (size_t i = 0; i < described_.size(); ++i) {
      described_[i].key_count = keys;
      described_[i].first_query = keys - described_[i].q_count;
      given_.sequences[i].keys = keys;
    }
    sequences_ = on_device(described_);
    const auto wanted = expected();
    expect_near(run(attention_decode_cuda), wanted, "decode");
    expect_near(run(attention_portable_cuda), wanted, "portable");
    if (has_tensor_cores_) check_tensor_cores(wanted);
  }
}

TEST_F(AttentionCuda, GivesTheSameBitsEachTime) {
  make({4, 2, 64, {{2, 600}}, true});
  std::vector<Kernel> kernels{attention_decode_cuda, attention_portable_cuda};
  if (has_tensor_cores_) kernels.push_back(attention_short_cuda);
  for (const Kernel kernel : kernels) {
    const auto first = run(kernel);
    const auto second = run(kernel);
    for (size_t i = 0; i < first.size(); ++i) ASSERT_EQ(first[i].bits, second[i].bits);
  }
}

TEST_F(AttentionCuda, DenseAttentionFallsBackWhereCudnnCannot) {
  make({2, 2, 64, {{30, 30}}});
  workspace_.set_tensor_cores(has_tensor_cores_);
  auto out = poisoned<bf16>(q_.size());
  attention_dense_cuda(stream(), shape_, described_[0], sequences_.data(), q_memory_.data(),
                       q_stride_, out.data(), q_stride_, workspace_, KernelChoice::kBest);
  expect_near(on_host(out), expected(), "dense");
}

TEST_F(AttentionCuda, CudnnEqualsTheReference) {
  if (!cudnn_attention_available()) GTEST_SKIP() << "no cuDNN on this machine";
  for (const auto& [heads, head_dim, patches] :
       std::vector<std::tuple<int, int, int>>{{16, 64, 272}, {4, 64, 1000}, {2, 128, 64}}) {
    make({heads, heads, head_dim, {{patches, patches}}});
    auto out = poisoned<bf16>(q_.size());
    const Status done = attention_cudnn(stream(), shape_, described_[0], q_memory_.data(),
                                        q_stride_, out.data(), q_stride_, workspace_);
    ASSERT_TRUE(done) << done.error().message;
    expect_near(on_host(out), expected(), "cuDNN");
  }
}

TEST_F(AttentionCuda, MassEqualsTheReference) {
  for (const BatchShape& shape : std::vector<BatchShape>{
           {1, 1, 4, {{1, 1}}},
           {4, 2, 16, {{3, 50}, {40, 200}, {5, 5, true}}, true},
           {6, 2, 72, {{20, 33, true}, {1, 70}}},
           {2, 1, 128, {{33, 300}}, true, 12},
       }) {
    make(shape);
    std::vector<AttentionMassRange> ranges;
    std::vector<DeviceMemory<float>> masses;
    int longest = 0;
    for (const SequenceSize& size : shape.sequences) {
      const int begin = size.keys / 5;
      masses.push_back(
          on_device(std::vector<float>(static_cast<size_t>(size.keys - begin), 0.25f)));
      ranges.push_back({begin, size.keys, masses.back().data(), 0.5f, ranges.size() == 1});
      longest = std::max(longest, size.keys - begin);
    }
    const auto ranges_on_device = on_device(ranges);
    ASSERT_GE(workspace_.part_floats(), attention_mass_floats(shape_, longest));
    attention_mass_cuda(stream(), shape_, sequences_.data(), ranges_on_device.data(), longest,
                        q_memory_.data(), q_stride_, workspace_);
    const auto q = widened(q_);
    for (size_t i = 0; i < ranges.size(); ++i) {
      std::vector<float> wanted(masses[i].size());
      attention_mass_reference(q.data() + int64_t{described_[i].q_begin} * q_stride_, q_stride_,
                               described_[i].q_count, kv_of(i), params_of(i), ranges[i].key_begin,
                               ranges[i].key_end, wanted.data());
      const auto got = on_host(masses[i]);
      for (size_t t = 0; t < wanted.size(); ++t) {
        const float value = wanted[t] * 0.5f + (i == 1 ? 0.25f : 0.0f);
        // Rounding a score s in f32 costs |s| * 1e-7, times the share of its weight.
        ASSERT_NEAR(got[t], value, 1e-7f + value * 3e-5f * shape.spread)
            << name(shape) << ", sequence " << i << ", key " << t;
      }
    }
  }
}

}  // namespace
}  // namespace fovea
