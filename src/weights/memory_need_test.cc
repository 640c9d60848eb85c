// SPDX-License-Identifier: Apache-2.0
#include "weights/memory_need.h"

#include <gtest/gtest.h>

#include <limits>

#include "weights/model_tensors.h"
#include "weights/test_files.h"

namespace fovea {
namespace {

TEST(MemoryNeed, CountsWeightsAndKeysAndValues) {
  const ModelConfig config = *parse_config(test::tiny_config(false));
  const int64_t parameters = parameter_count(config);
  const MemoryNeed f32 = memory_need(config, WeightFormat::kF32, 100, 4);
  EXPECT_EQ(f32.weights_bytes, 4 * parameters);
  EXPECT_EQ(f32.kv_bytes, 100 * 2 * 2 * 2 * 8 * 4) << "tokens, K and V, layers, heads, head, float";
  EXPECT_EQ(f32.total(), f32.weights_bytes + f32.kv_bytes + f32.work_bytes);
  const MemoryNeed bf16 = memory_need(config, WeightFormat::kBf16, 100, 2);
  const MemoryNeed int8 = memory_need(config, WeightFormat::kInt8, 100, 2);
  EXPECT_EQ(bf16.kv_bytes, f32.kv_bytes / 2);
  EXPECT_GT(bf16.weights_bytes, 2 * parameters) << "vectors are f32";
  EXPECT_LT(int8.weights_bytes, bf16.weights_bytes);
  const MemoryNeed tied =
      memory_need(*parse_config(test::tiny_config(true)), WeightFormat::kF32, 0, 4);
  EXPECT_EQ(f32.weights_bytes - tied.weights_bytes, 40 * 16 * 4) << "a tied head costs nothing";
}

TEST(MemoryNeed, AnAbsurdContextIsMoreThanThereIs) {
  const ModelConfig config = *parse_config(test::tiny_config());
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const int64_t tokens : {most, most / 100, most / 1000}) {
    const MemoryNeed need = memory_need(config, WeightFormat::kF32, tokens, 4);
    EXPECT_GT(need.total(), int64_t{1} << 60);
    EXPECT_FALSE(check_memory(need, int64_t{1} << 50));
  }
}

TEST(CheckMemory, SaysBothFiguresAndWhatToTry) {
  MemoryNeed need;
  need.format = WeightFormat::kBf16;
  need.context_tokens = 4096;
  need.weights_bytes = 4'300'000'000;
  need.kv_bytes = 500'000'000;
  need.work_bytes = 300'000'000;
  EXPECT_TRUE(check_memory(need, 5'100'000'000));
  const Status status = check_memory(need, 5'099'999'999);
  ASSERT_FALSE(status);
  EXPECT_EQ(
      status.error().message,
      "the model needs 5.1 GB of memory (4.3 GB of weights as bf16, 500.0 MB of keys and values "
      "for 4,096 tokens, 300.0 MB to work in), but 5.1 GB is free; try weights of int8");
}

TEST(AvailableMemory, IsSomethingAMachineCouldHave) {
  EXPECT_GT(available_memory_bytes(), int64_t{1} << 20);
  EXPECT_LT(available_memory_bytes(), int64_t{1} << 50);
}

}  // namespace
}  // namespace fovea
