// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/test_attention_cuda.h"

namespace fovea {
namespace {

class AttentionShortCuda : public AttentionCudaTest {
 protected:
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

 private:
  int row_warps_ = 0;  // of check_short, one after the other
};

// The rows of a block are 16, 32 or 48; its warps take 32 to 80 keys each, in one round or several.
TEST_F(AttentionShortCuda, EqualsTheReference) {
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

TEST_F(AttentionShortCuda, TakesMoreKeysThanWereSaidInRounds) {
  for (const int head_dim : {64, 128}) {
    make({2, 1, head_dim, {{9, 500, true}, {20, 700}}, true});
    shape_.max_key_count = 100;
    if (has_tensor_cores_) expect_near(run(attention_short_cuda), expected(), "short");
  }
}

TEST_F(AttentionShortCuda, IsForSmallProblems) {
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

}  // namespace
}  // namespace fovea
