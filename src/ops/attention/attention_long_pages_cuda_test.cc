// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/attention_long_cuda.h"
#include "ops/attention/test_attention_cuda.h"

namespace fovea {
namespace {

constexpr int kPageTokens = 64;

// The sequences of AttentionCudaTest, their keys copied into pages that lie in no order.
class AttentionLongPages : public AttentionCudaTest {
 protected:
  void check(const BatchShape& shape) {
    make(shape);
    std::vector<int> numbers;
    for (const SequenceSize& size : shape.sequences)
      for (int key = 0; key < size.keys; key += kPageTokens)
        numbers.push_back(static_cast<int>(numbers.size()));
    std::shuffle(numbers.begin(), numbers.end(), random_);
    const int dim = shape.head_dim;
    const auto page_values = static_cast<size_t>(2 * shape.kv_heads * kPageTokens * dim);
    // What holds no token: finite, and far from what values are.
    std::vector<bf16> pages(numbers.size() * page_values, to_bf16(1000.0f));
    std::vector<DeviceMemory<int>> tables;
    size_t used = 0;
    for (size_t i = 0; i < shape.sequences.size(); ++i) {
      const SequenceOnHost& host = host_[i];
      const int keys = shape.sequences[i].keys;
      const size_t first = used;
      for (int head = 0; head < shape.kv_heads; ++head)
        for (int key = 0; key < keys; ++key) {
          const auto number =
              static_cast<size_t>(numbers[first + static_cast<size_t>(key / kPageTokens)]);
          const auto from = static_cast<std::ptrdiff_t>((head * host.capacity + key) * dim);
          const size_t to = number * page_values +
                            static_cast<size_t>((2 * head * kPageTokens + key % kPageTokens) * dim);
          std::copy_n(host.keys.begin() + from, dim,
                      pages.begin() + static_cast<std::ptrdiff_t>(to));
          std::copy_n(host.values.begin() + from, dim,
                      pages.begin() +
                          static_cast<std::ptrdiff_t>(to + static_cast<size_t>(kPageTokens * dim)));
        }
      used += static_cast<size_t>((keys + kPageTokens - 1) / kPageTokens);
      tables.push_back(
          on_device(std::vector<int>(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                                     numbers.begin() + static_cast<std::ptrdiff_t>(used))));
    }
    const auto on_gpu = on_device(pages);
    std::vector<const int*> table_pointers;
    for (const auto& table : tables) table_pointers.push_back(table.data());
    auto out = poisoned<bf16>(q_.size());
    const Status done =
        attention_long_pages_cuda(stream(), shape_, described_,
                                  {.pages = on_gpu.data(),
                                   .count = static_cast<int64_t>(numbers.size()),
                                   .tables = table_pointers},
                                  q_memory_.data(), q_stride_, out.data(), q_stride_, workspace_);
    ASSERT_TRUE(done) << done.error().message;
    expect_near(on_host(out), expected(), "pages");
  }
};

TEST_F(AttentionLongPages, EqualTheReference) {
  if (!workspace_.warpgroups()) GTEST_SKIP() << "no warpgroups (sm_90a) on this device";
  std::vector<SequenceSize> many;  // for more than one launch
  for (int i = 1; i <= 15; ++i) many.push_back({i * 37 % 100 + 1, i * 91 % 300 + 100});
  for (const BatchShape& shape : std::vector<BatchShape>{
           {1, 1, 128, {{1, 1}}, true},
           {2, 1, 128, {{64, 64}}},
           {2, 2, 128, {{65, 129}}, true},
           {4, 2, 128, {{300, 700}}, true},
           {40, 4, 128, {{500, 64}, {130, 57}}, true},
           {3, 3, 64, {{200, 500}, {1, 64}}},
           {2, 1, 128, many, true},
       })
    check(shape);
}

}  // namespace
}  // namespace fovea
