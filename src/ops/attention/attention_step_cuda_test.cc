// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_step_cuda.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "device/cuda/test_device.h"
#include "ops/attention/attention.h"
#include "ops/test_plain_keys.h"

namespace fovea {
namespace {

struct StepCase {
  int heads;
  int kv_heads;
  int head_dim;
  std::vector<int> keys;  // of each sequence, the new one included
  bool norm = true;
  std::vector<StepSplit> splits = {{.cluster = 0}, {}};
};

std::string name(const StepSplit& split) {
  return split.cluster > 0
             ? std::to_string(split.cluster) + " blocks of " + std::to_string(split.cluster_warps)
             : "parts of " + std::to_string(split.part_keys) + ", " + std::to_string(split.warps);
}

std::string name(const StepCase& shape) {
  std::string text = std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) +
                     " heads of " + std::to_string(shape.head_dim) +
                     (shape.norm ? ", normed" : "") + ", keys";
  for (const int keys : shape.keys) text += " " + std::to_string(keys);
  return text;
}

// Two layers, of which the second is used, with room beyond the keys.
constexpr int kLayers = 2;
constexpr int kRoom = 3;

struct StepMemory {
  std::vector<DeviceMemory<bf16>> keys;
  std::vector<DeviceMemory<bf16>> values;
  DeviceMemory<RowPlace> places;
};

class AttentionStepCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(workspace_.open(stream()));
  }

  std::vector<float> random_floats(size_t count, float mean) {
    std::normal_distribution<float> normal(mean, 1);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  // NaN from the new key on, which nobody may read.
  std::vector<bf16> random_memory(int keys) {
    const int row = given_.head_dim;
    const int capacity = keys + kRoom;
    std::normal_distribution<float> normal(0, 1);
    std::vector<bf16> memory(static_cast<size_t>(kLayers * given_.kv_heads * capacity * row));
    for (size_t i = 0; i < memory.size(); ++i) {
      const auto key = static_cast<int>(i) / row % capacity;
      memory[i] = key < keys - 1 ? to_bf16(normal(random_)) : bf16{0x7FFF};
    }
    return memory;
  }

  void make(const StepCase& shape) {
    given_ = shape;
    const auto rows = shape.keys.size();
    const auto width = static_cast<size_t>((shape.heads + 2 * shape.kv_heads) * shape.head_dim);
    std::vector<bf16> qkv(rows * width);
    std::normal_distribution<float> normal(0, 2);
    for (bf16& value : qkv) value = to_bf16(normal(random_));
    qkv_ = on_device(qkv);
    const auto dim = static_cast<size_t>(shape.head_dim);
    q_norm_ = on_device(random_floats(dim, 1));
    k_norm_ = on_device(random_floats(dim, 1));
    std::vector<float> cos;
    std::vector<float> sin;
    for (const float angle : random_floats(rows * dim / 2, 0)) {
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
    cos_ = on_device(cos);
    sin_ = on_device(sin);
    key_values_.clear();
    for (const int keys : shape.keys) {
      key_values_.push_back(random_memory(keys));
      key_values_.push_back(random_memory(keys));
    }
  }

  StepMemory memory() {
    StepMemory made;
    std::vector<RowPlace> places;
    for (size_t i = 0; i < given_.keys.size(); ++i) {
      made.keys.push_back(on_device(key_values_[2 * i]));
      made.values.push_back(on_device(key_values_[2 * i + 1]));
      places.push_back({made.keys.back().data(), made.values.back().data(), given_.keys[i] + kRoom,
                        given_.keys[i] - 1});
    }
    made.places = on_device(places);
    return made;
  }

  RotaryJob rotary(const StepMemory& memory) const {
    RotaryJob job;
    job.qkv = qkv_.data();
    job.rows = static_cast<int>(given_.keys.size());
    job.heads = given_.heads;
    job.kv_heads = given_.kv_heads;
    job.head_dim = given_.head_dim;
    job.q_norm = given_.norm ? q_norm_.data() : nullptr;
    job.k_norm = given_.norm ? k_norm_.data() : nullptr;
    job.eps = 1e-6f;
    job.cos = cos_.data();
    job.sin = sin_.data();
    job.places = memory.places.data();
    job.layer = kLayers - 1;
    return job;
  }
  size_t out_values() const {
    return given_.keys.size() * static_cast<size_t>(given_.heads * given_.head_dim);
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(given_.head_dim)); }

  // `most`: keys that it is told of; 0: those that there are.
  std::vector<bf16> step(const StepMemory& memory, const StepSplit& split, int most = 0) {
    StepShape shape;
    shape.rotary = rotary(memory);
    shape.scale = scale();
    shape.max_keys = most > 0 ? most : *std::max_element(given_.keys.begin(), given_.keys.end());
    auto out = poisoned<bf16>(out_values());
    shape.out = out.data();
    shape.split = split;
    attention_step_cuda(stream(), shape, workspace_);
    return on_host(out);
  }

  std::vector<bf16> in_two_kernels(const StepMemory& memory) {
    RotaryJob job = rotary(memory);
    auto q = poisoned<bf16>(out_values());
    auto out = poisoned<bf16>(out_values());
    job.q = q.data();
    rotate_heads_cuda(stream(), job);
    AttentionShape shape;
    shape.sequences = job.rows;
    shape.max_q_count = 1;
    shape.heads = job.heads;
    shape.kv_heads = job.kv_heads;
    shape.head_dim = job.head_dim;
    shape.scale = scale();
    shape.causal = true;
    shape.layer = job.layer;
    std::vector<AttentionSequence> sequences;
    for (size_t i = 0; i < given_.keys.size(); ++i) {
      AttentionSequence one;
      one.q_begin = static_cast<int>(i);
      one.q_count = 1;
      one.keys = memory.keys[i].data();
      one.values = memory.values[i].data();
      one.capacity = given_.keys[i] + kRoom;
      one.key_count = given_.keys[i];
      one.first_query = given_.keys[i] - 1;
      sequences.push_back(one);
      shape.max_key_count = std::max(shape.max_key_count, one.key_count);
    }
    const auto there = on_device(sequences);
    const int64_t stride = int64_t{job.heads} * job.head_dim;
    attention_cuda(stream(), shape, there.data(), q.data(), stride, out.data(), stride, workspace_,
                   KernelChoice::kPortable);
    q_ = on_host(q);
    return on_host(out);
  }

  // Of the queries and the memory that the two kernels left.
  std::vector<float> expected(const StepMemory& memory) {
    const auto dim = static_cast<size_t>(given_.head_dim);
    const size_t width = static_cast<size_t>(given_.heads) * dim;
    const auto kv_heads = static_cast<size_t>(given_.kv_heads);
    std::vector<float> out(out_values());
    for (size_t i = 0; i < given_.keys.size(); ++i) {
      const auto keys = on_host(memory.keys[i]);
      const auto values = on_host(memory.values[i]);
      PlainKeys kv(given_.kv_heads, given_.head_dim);
      const auto capacity = static_cast<size_t>(given_.keys[i] + kRoom);
      for (size_t t = 0; t + kRoom < capacity; ++t) {
        std::vector<float> k;
        std::vector<float> v;
        for (size_t head = (kLayers - 1) * kv_heads; head < kLayers * kv_heads; ++head)
          for (size_t d = 0; d < dim; ++d) {
            k.push_back(to_float(keys[(head * capacity + t) * dim + d]));
            v.push_back(to_float(values[(head * capacity + t) * dim + d]));
          }
        const auto row = static_cast<int64_t>(k.size());
        kv.append(k.data(), row, v.data(), row, 1);
      }
      std::vector<float> q;
      for (size_t j = 0; j < width; ++j) q.push_back(to_float(q_[i * width + j]));
      const AttentionParams params{.heads = given_.heads, .scale = scale()};
      attention_reference(q.data(), static_cast<int64_t>(width), 1, kv.view(), params,
                          out.data() + i * width, static_cast<int64_t>(width));
    }
    return out;
  }

  void expect_same_memory(const StepMemory& one, const StepMemory& other) {
    for (size_t i = 0; i < one.keys.size(); ++i)
      for (const bool of_keys : {true, false}) {
        const auto a = on_host(of_keys ? one.keys[i] : one.values[i]);
        const auto b = on_host(of_keys ? other.keys[i] : other.values[i]);
        for (size_t j = 0; j < a.size(); ++j)
          ASSERT_EQ(a[j].bits, b[j].bits) << name(given_) << ", sequence " << i << ", value " << j;
      }
  }

  // All have the same queries, keys and values, add in f32 and round once to bf16: half a step of
  // 2^-8 of a value, or a whole one between two of them.
  void check(const StepCase& shape) {
    make(shape);
    const auto memory_of_two = memory();
    const auto two = in_two_kernels(memory_of_two);
    const auto wanted = expected(memory_of_two);
    for (const StepSplit& split : shape.splits) {
      const auto memory_of_one = memory();
      const auto one = step(memory_of_one, split);
      expect_same_memory(memory_of_one, memory_of_two);
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(to_float(one[i]), wanted[i], 1e-5f + std::abs(wanted[i]) / 250)
            << name(shape) << ", " << name(split) << ", value " << i;
        ASSERT_NEAR(to_float(one[i]), to_float(two[i]), 1e-5f + std::abs(wanted[i]) / 125)
            << name(shape) << ", " << name(split) << ", value " << i;
      }
    }
  }

  std::mt19937 random_{23};
  StepCase given_{};
  DeviceMemory<bf16> qkv_;
  DeviceMemory<float> q_norm_;
  DeviceMemory<float> k_norm_;
  DeviceMemory<float> cos_;
  DeviceMemory<float> sin_;
  std::vector<std::vector<bf16>> key_values_;  // keys, values of each sequence
  std::vector<bf16> q_;
  AttentionWorkspace workspace_;
};

TEST_F(AttentionStepCuda, EqualsRotationAndAttentionForAnyCountOfKeys) {
  for (const int keys : {1, 2, 63, 64, 65, 127, 128, 129, 257, 700})
    for (const bool norm : {false, true}) check({2, 1, 128, {keys}, norm});
}

TEST_F(AttentionStepCuda, EqualsRotationAndAttentionForAnyHeads) {
  for (const int group : {1, 2, 3, 4})
    for (const int dim : {8, 40, 64, 72, 128}) check({2 * group, 2, dim, {150}, group % 2 == 0});
  check({16, 8, 128, {300}});
}

TEST_F(AttentionStepCuda, TakesSequencesOfDifferentLengths) {
  check({2, 1, 64, {1, 130, 700, 2}});
  check({4, 2, 128, {257, 64, 65}});
  check({3, 1, 16, {9, 400}, false});
}

StepSplit in_parts(int warps, int part_keys, int whole_keys) {
  return {.cluster = 0, .warps = warps, .part_keys = part_keys, .whole_keys = whole_keys};
}

TEST_F(AttentionStepCuda, KeysMayBeSharedInAnyWay) {
  std::vector<StepSplit> splits;
  for (const int warps : {8, 16})
    for (const int part_keys : {1, 128, 200, 4096})
      for (const int whole_keys : {0, 300})
        splits.push_back(in_parts(warps, part_keys, whole_keys));
  check({2, 1, 128, {1, 290}, true, splits});
  check({4, 1, 64, {300}, true, {in_parts(16, 64, 0)}});
  check({1, 1, 128, {300}, true, {in_parts(16, 64, 0)}});
}

TEST_F(AttentionStepCuda, AnyBlocksMayBeACluster) {
  std::vector<StepSplit> splits;
  for (const int warps : {8, 16})
    for (const int cluster : {1, 2, 4, 8})
      splits.push_back({.cluster = cluster, .cluster_warps = warps});
  check({2, 1, 128, {290}, true, splits});
  check({4, 1, 128, {1300}, true, splits});
  check({1, 1, 64, {520}, true, splits});
  check({3, 1, 72, {1, 290}, true, splits});
}

// A graph is replayed while keys are added.
TEST_F(AttentionStepCuda, SeesMoreOrLessKeysThanItWasToldOf) {
  make({2, 1, 128, {700}});
  for (const StepSplit& split : given_.splits) {
    const auto all = step(memory(), split);
    for (const int most : {1, 256, 2048}) {
      const auto got = step(memory(), split, most);
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_NEAR(to_float(got[i]), to_float(all[i]), 1e-5f + std::abs(to_float(all[i])) / 125)
            << name(split);
    }
  }
}

TEST_F(AttentionStepCuda, GivesTheSameBitsEachTime) {
  make({2, 1, 128, {600}});
  for (const StepSplit& split : given_.splits) {
    const auto first = step(memory(), split);
    const auto second = step(memory(), split);
    for (size_t i = 0; i < first.size(); ++i) ASSERT_EQ(first[i].bits, second[i].bits);
  }
}

#if defined(FOVEA_EMULATE)
// It begins before the kernels before it have moved the places on.
TEST_F(AttentionStepCuda, PlacesMayLieOneBehindUntilThePreviousKernelHasEnded) {
  for (const int keys : {1, 2, 64, 65, 66, 129, 320}) {
    make({2, 1, 128, {keys}});
    for (const StepSplit& split : given_.splits) {
      const auto wanted = step(memory(), split);
      auto memory_of_late = memory();
      RowPlace* place = memory_of_late.places.data();
      emulate::previous_kernel = [=](bool has_ended) {
        place->position = has_ended ? keys - 1 : keys - 2;
      };
      const auto late = step(memory_of_late, split);
      emulate::previous_kernel = nullptr;
      for (size_t i = 0; i < late.size(); ++i) ASSERT_EQ(late[i].bits, wanted[i].bits) << keys;
    }
  }
}
#endif

TEST(AttentionStep, TakesWhatItSays) {
  RotaryJob job;
  job.heads = 16;
  job.kv_heads = 8;
  job.head_dim = 128;
  EXPECT_TRUE(attention_step_takes(job));
  job.heads = 40;
  EXPECT_FALSE(attention_step_takes(job)) << "5 heads to a key head";
  job.heads = 8;
  job.head_dim = 136;
  EXPECT_FALSE(attention_step_takes(job));
  job.head_dim = 20;
  EXPECT_FALSE(attention_step_takes(job));
}

}  // namespace
}  // namespace fovea
