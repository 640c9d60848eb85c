// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_cuda.h"

#include "ops/attention/attention_long_cuda.h"
#include "ops/attention/test_attention_cuda.h"

namespace fovea {
namespace {

class AttentionCuda : public AttentionCudaTest {
 protected:
  std::vector<bf16> run_long() {
    auto out = poisoned<bf16>(q_.size());
    const Status done = attention_long_cuda(stream(), shape_, described_, q_memory_.data(),
                                            q_stride_, out.data(), q_stride_, workspace_);
    EXPECT_TRUE(done) << done.error().message;
    return on_host(out);
  }
  void check_long(const BatchShape& shape) {
    make(shape);
    ASSERT_TRUE(attention_long_takes(shape_, described_, q_stride_, workspace_)) << name(shape);
    expect_near(run_long(), expected(), "long");
  }
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

// Blocks of 128 rows are for problems that fill the device, of which the emulation has 4
// multiprocessors.
TEST_F(AttentionCuda, EqualsTheReferenceInLargeBlocks) {
  if (!kEmulated) return check_all({16, 16, 64, {{2200, 300}}});
  check_all({8, 8, 16, {{20, 90}}, true});
  check_all({8, 8, 64, {{130, 70}}});
}
TEST_F(AttentionCuda, EqualsTheReferenceInLargeCausalBlocks) {
  if (!kEmulated) return check_all({16, 8, 128, {{1056, 1056}, {272, 300}}, true});
  check_all({16, 8, 128, {{40, 70}}, true});
}
TEST_F(AttentionCuda, EqualsTheReferenceInLargeBlocksBehindOthers) {
  if (!kEmulated) return check_all({16, 8, 128, {{1056, 2000}}, true});
  check_all({16, 8, 128, {{33, 90}}, true});
}
TEST_F(AttentionCuda, EqualsTheReferenceInLargeBlocksOfOddHeads) {
  if (!kEmulated) return check_all({16, 16, 80, {{1500, 1500, true}}, true});
  check_all({8, 8, 80, {{10, 65, true}}, true});
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

// Long ones may go another way than short ones, one by one.
TEST_F(AttentionCuda, KnownSequencesAreSeenAsOthersAre) {
  const int many = kEmulated ? 40 : 530;
  for (const BatchShape& shape : std::vector<BatchShape>{
           {2, 2, 64, {{30, 30}}},
           {2, 2, 64, {{many, many}}},
           {2, 2, 64, {{many, many}, {many, many + 9}, {many + 1, many}}},
           {2, 2, 64, {{many, many}, {30, 30}}},
           {2, 2, 64, {{many, many}, {many, many, true}}},
           {2, 2, 16, {{many, many}, {many, many}}},
       }) {
    make(shape);
    workspace_.set_tensor_cores(has_tensor_cores_);
    const auto wanted = expected();
    for (const bool known : {true, false}) {
      auto out = poisoned<bf16>(q_.size());
      attention_known_cuda(stream(), shape_, known ? described_ : std::vector<AttentionSequence>{},
                           sequences_.data(), q_memory_.data(), q_stride_, out.data(), q_stride_,
                           workspace_, KernelChoice::kBest);
      expect_near(on_host(out), wanted, known ? "known" : "not known");
    }
  }
}

// Tiles of all warpgroups' rows and of fewer, several of them to a block, ends of rows and keys
// within a tile, keys that heads share, heads that are filled up, sequences of different lengths.
TEST_F(AttentionCuda, LongEqualsTheReference) {
  if (!workspace_.warpgroups()) GTEST_SKIP() << "no warpgroups (sm_90a) on this device";
  for (const BatchShape& shape : std::vector<BatchShape>{
           {1, 1, 64, {{1, 1}}},
           {2, 2, 64, {{64, 128}}},
           {2, 2, 64, {{65, 129}}},
           {16, 16, 64, {{272, 272}}},
           {4, 4, 64, {{1000, 90}}},
           {6, 2, 64, {{193, 400}}, false, 12},
           {48, 48, 64, {{600, 30}}},
           {3, 3, 72, {{200, 333}}},
           {80, 16, 72, {{260, 40}}},
           {4, 2, 80, {{130, 400}}},
           {1, 1, 128, {{1, 1}}},
           {2, 1, 128, {{128, 128}}},
           {4, 4, 128, {{129, 177}}, false, 12},
           {4, 2, 128, {{300, 700}}},
           {48, 4, 128, {{600, 30}}},
       })
    check_long(shape);
}
TEST_F(AttentionCuda, LongEqualsTheReferenceOfCausalSequences) {
  if (!workspace_.warpgroups()) GTEST_SKIP() << "no warpgroups (sm_90a) on this device";
  for (const BatchShape& shape : std::vector<BatchShape>{
           {1, 1, 128, {{1, 1}}, true},
           {1, 1, 128, {{64, 64}}, true},
           {2, 1, 128, {{65, 65}}, true, 12},
           {2, 2, 128, {{127, 300}}, true},
           {2, 1, 128, {{600, 600}}, true},
           {4, 2, 128, {{129, 500}}, true},
           {48, 16, 128, {{400, 40}}, true},
           {4, 4, 64, {{333, 400}}, true},
           {6, 2, 80, {{200, 333}}, true},
       })
    check_long(shape);
}
TEST_F(AttentionCuda, LongEqualsTheReferenceOfSequencesOfDifferentLengths) {
  if (!workspace_.warpgroups()) GTEST_SKIP() << "no warpgroups (sm_90a) on this device";
  std::vector<SequenceSize> many;  // for more than one launch
  for (int i = 1; i <= 27; ++i) many.push_back({i * 37 % 100 + 1, i * 91 % 200 + 100});
  for (const BatchShape& shape : std::vector<BatchShape>{
           {4, 2, 128, {{300, 300}, {64, 500}, {1, 1}, {129, 130}}, true},
           {4, 2, 128, {{300, 300}, {64, 500}, {1, 1}, {129, 130}}},
           {4, 4, 128, {{300, 300}, {300, 500}}, true},
           {2, 2, 64, {{193, 100}, {10, 300}, {400, 400}}},
           {2, 1, 80, {{193, 100}, {10, 300}, {65, 65}}, false},
           {2, 1, 128, many, true},
           {2, 1, 72, many},
       })
    check_long(shape);
}

TEST_F(AttentionCuda, LongGivesTheSameBitsEachTime) {
  if (!workspace_.warpgroups()) GTEST_SKIP() << "no warpgroups (sm_90a) on this device";
  make({16, 8, 128, {{900, 900}, {500, 700}}, true});
  const auto first = run_long();
  for (int i = 0; i < 5; ++i) {
    const auto again = run_long();
    for (size_t j = 0; j < first.size(); ++j) ASSERT_EQ(first[j].bits, again[j].bits);
  }
}

TEST_F(AttentionCuda, LongIsNotForOtherShapes) {
  const auto takes = [&] {
    return attention_long_takes(shape_, described_, q_stride_, workspace_);
  };
  for (const BatchShape& shape : std::vector<BatchShape>{
           {2, 2, 64, {{70, 70}}}, {2, 2, 64, {{70, 70}}, true}, {2, 1, 128, {{70, 70}, {1, 2}}}}) {
    make(shape);
    EXPECT_EQ(takes(), workspace_.warpgroups());
  }
  for (const BatchShape& shape : std::vector<BatchShape>{
           {2, 2, 64, {{70, 70, true}}},
           {2, 2, 96, {{70, 70}}},
           {2, 2, 32, {{70, 70}}},
           {2, 2, 64, {{0, 70}}},
           {2, 2, 64, {{70, 70}, {0, 70}}},
       }) {
    make(shape);
    EXPECT_FALSE(takes());
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
                               described_[i].q_count, kv_of(i).view(), params_of(i),
                               ranges[i].key_begin, ranges[i].key_end, wanted.data());
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
