// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_rotary_cuda.h"

#include <cstring>

#include "ops/attention/test_attention_cuda.h"
#include "ops/rows_cuda.h"

namespace fovea {
namespace {

constexpr bf16 kNan{0x7FFF};

class AttentionRotaryCuda : public AttentionCudaTest {
 protected:
  // Sequences of so many rows, which two kernels rotate and attend to.
  void make_rows(int heads, int head_dim, const std::vector<SequenceSize>& sizes,
                 float spread = 1) {
    make({heads, heads, head_dim, sizes, false, spread});
    const int64_t width = int64_t{3} * heads * head_dim;
    product_ = random_bf16(static_cast<size_t>(rows_ * width), random_, spread);
    // The first row and the last are nobody's.
    std::fill_n(product_.begin(), width, kNan);
    std::fill_n(product_.end() - width, width, kNan);
    std::uniform_real_distribution<float> angle(-3.2f, 3.2f);
    std::vector<float> cos;
    std::vector<float> sin;
    for (int64_t i = 0; i < rows_ * head_dim / 2; ++i) {
      const float theta = angle(random_);
      cos.push_back(std::cos(theta));
      sin.push_back(std::sin(theta));
    }
    product_memory_ = on_device(product_);
    cos_ = on_device(cos);
    sin_ = on_device(sin);
    rotate_rows();
  }

  // Queries, keys and values as rotate_heads_cuda leaves them, for the reference and the kernels
  // that read them so.
  void rotate_rows() {
    std::vector<RowPlace> places(static_cast<size_t>(rows_));
    for (size_t i = 0; i < described_.size(); ++i)
      for (int row = 0; row < described_[i].q_count; ++row)
        places[static_cast<size_t>(described_[i].q_begin + row)] = {
            memory_[i].keys.data(), memory_[i].values.data(), host_[i].capacity, row};
    const int64_t width = int64_t{3} * given_.heads * given_.head_dim;
    const auto places_on_device = on_device(places);
    rotate_heads_cuda(stream(), {.qkv = product_memory_.data() + width,
                                 .rows = static_cast<int>(rows_) - 2,
                                 .heads = given_.heads,
                                 .kv_heads = given_.heads,
                                 .head_dim = given_.head_dim,
                                 .cos = cos_.data() + given_.head_dim / 2,
                                 .sin = sin_.data() + given_.head_dim / 2,
                                 .q = q_memory_.data() + q_stride_,
                                 .q_stride = q_stride_,
                                 .places = places_on_device.data() + 1});
    q_ = on_host(q_memory_);
    for (size_t i = 0; i < host_.size(); ++i) {
      host_[i].keys = on_host(memory_[i].keys);
      host_[i].values = on_host(memory_[i].values);
    }
  }

  RotaryRows rows_of(bool alone = false) const {
    return {product_memory_.data(), cos_.data(), sin_.data(), alone ? nullptr : sequences_.data()};
  }
  std::vector<bf16> rotated(const RotaryForm& form) {
    auto out = poisoned<bf16>(q_.size());
    attention_rotary_cuda(stream(), shape_, rows_of(), out.data(), q_stride_, form);
    return on_host(out);
  }

  // Clusters of blocks only where they can be.
  RotaryForm next_form() {
    constexpr RotaryForm kForms[] = {{3, 1}, {2, 1}, {4, 1}, {3, 2}, {2, 3}, {3, 6}, {2, 8}};
    const RotaryForm form = kForms[form_++ % std::size(kForms)];
    return {form.row_warps, kEmulated || workspace_.clusters() ? form.cluster : 1};
  }
  static std::string name_of(const RotaryForm& form) {
    return std::to_string(16 * form.row_warps) + " rows, clusters of " +
           std::to_string(form.cluster);
  }

  void check(int heads, int head_dim, const std::vector<SequenceSize>& sizes, float spread = 1) {
    if (!has_tensor_cores_) return;
    make_rows(heads, head_dim, sizes, spread);
    const auto wanted = expected();
    const auto two_kernels = run(attention_flash_cuda);
    const RotaryForm form = next_form();
    const auto got = rotated(form);
    expect_near(got, wanted, name_of(form));
    // The same values, added in another order, round to a neighbour now and then.
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(wanted[i])) continue;
      const double difference = to_float(got[i]) - to_float(two_kernels[i]);
      error += difference * difference;
      size += wanted[i] * wanted[i];
    }
    EXPECT_LE(std::sqrt(error), 3e-3 * std::sqrt(size)) << name_of(form) << ", " << name(given_);
  }

  std::vector<bf16> product_;
  DeviceMemory<bf16> product_memory_;
  DeviceMemory<float> cos_;
  DeviceMemory<float> sin_;
  size_t form_ = 0;
};

TEST_F(AttentionRotaryCuda, EqualsTheReferenceAndTwoKernels) {
  for (const int rows : {1, 4, 12, 16, 17, 33, 48, 64, 100, 129, 272}) {
    const bool bias = rows % 3 == 0;
    check(1, 64, {{rows, rows, bias}});
    check(rows < 100 ? 2 : 1, 64, {{rows, rows, !bias}}, rows < 100 ? 12 : 1);
  }
  check(1, 64, {{500, 500, true}});
}

TEST_F(AttentionRotaryCuda, TakesHeadsOfAnySize) {
  for (const int head_dim : {8, 16, 24, 40, 56, 72, 80, 88, 128})
    for (const int rows : {1, 30, 100}) check(2, head_dim, {{rows, rows, rows == 30}});
  check(1, 72, {{272, 272}});
  check(1, 128, {{272, 272, true}});
}

TEST_F(AttentionRotaryCuda, TakesSequencesOfDifferentLengthsAtOnce) {
  for (int form = 0; form < 7; ++form) {
    check(1, 64, {{70, 70}, {4, 4, true}, {0, 0}, {129, 129, true}, {16, 16}});
    check(1, 72, {{5, 5, true}, {60, 60}});
  }
}

TEST_F(AttentionRotaryCuda, OneSequenceNeedsNoDescription) {
  if (!has_tensor_cores_) return;
  make_rows(2, 64, {{100, 100}});
  RotaryRows rows = rows_of(true);
  rows.qkv += int64_t{3} * 2 * 64;
  rows.cos += 32;
  rows.sin += 32;
  for (int i = 0; i < 4; ++i) {
    const RotaryForm form = next_form();
    auto out = poisoned<bf16>(q_.size());
    attention_rotary_cuda(stream(), shape_, rows, out.data() + q_stride_, q_stride_, form);
    expect_near(on_host(out), expected(), name_of(form));
  }
}

TEST_F(AttentionRotaryCuda, GivesTheSameBitsEachTimeAndInEachCluster) {
  if (!has_tensor_cores_) return;
  make_rows(2, 64, {{200, 200}});
  const auto first = rotated({3, 1});
  for (const int cluster : {1, 2, 5}) {
    const auto again = rotated({3, kEmulated || workspace_.clusters() ? cluster : 1});
    for (size_t i = 0; i < first.size(); ++i) ASSERT_EQ(first[i].bits, again[i].bits) << cluster;
  }
}

TEST_F(AttentionRotaryCuda, IsForShortSequencesOfTensorCores) {
  const auto takes = [&](int heads, int head_dim, int rows, KernelChoice choice) {
    AttentionShape shape;
    shape.heads = shape.kv_heads = heads;
    shape.head_dim = head_dim;
    shape.max_q_count = rows;
    return attention_rotary_takes(shape, workspace_, choice);
  };
  workspace_.set_tensor_cores(has_tensor_cores_);
  EXPECT_EQ(takes(2, 64, 60, KernelChoice::kBest), has_tensor_cores_);
  EXPECT_FALSE(takes(2, 64, 60, KernelChoice::kPortable));
  EXPECT_FALSE(takes(2, 64, 4000, KernelChoice::kBest));
  EXPECT_FALSE(takes(1000, 64, 60, KernelChoice::kBest));
  EXPECT_FALSE(takes(2, 68, 60, KernelChoice::kBest));
  workspace_.set_tensor_cores(false);
  EXPECT_FALSE(takes(2, 64, 60, KernelChoice::kBest));
}

#if defined(FOVEA_EMULATE)
// It begins before the product has been written.
TEST_F(AttentionRotaryCuda, ReadsTheProductWhenItHasBeenWritten) {
  make_rows(1, 64, {{20, 20, true}});
  for (const RotaryForm form : {RotaryForm{3, 1}, RotaryForm{2, 2}}) {
    const auto wanted = rotated(form);
    bf16* values = product_memory_.data();
    emulate::previous_kernel = [&, values](bool has_ended) {
      if (has_ended)
        std::memcpy(values, product_.data(), product_memory_.bytes());
      else
        std::memset(values, 0xFF, product_memory_.bytes());
    };
    const auto late = rotated(form);
    emulate::previous_kernel = nullptr;
    for (size_t i = 0; i < late.size(); ++i) ASSERT_EQ(late[i].bits, wanted[i].bits);
  }
}
#endif

}  // namespace
}  // namespace fovea
