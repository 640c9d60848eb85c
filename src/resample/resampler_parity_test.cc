// SPDX-License-Identifier: Apache-2.0
// Resamplers against transformers' BLIP-2 and Idefics2, on what tools/golden/resample.py wrote.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "engine/load_resampler.h"
#include "ops/test_values.h"
#include "places.h"
#include "weights/safetensors.h"

namespace fovea {
namespace {

// Both compute in f32 and sum in different orders, which costs about 1e-6; an eps that is not read
// or a layer without its states is off by more than 1e-3.
constexpr double kTolerance = 1e-4;

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {
      "qformer_full",   "qformer_single",   "qformer_odd",   "qformer_long",
      "perceiver_full", "perceiver_single", "perceiver_odd", "perceiver_long"};
  return all;
}

std::string folder_of(const std::string& name) {
  return source_dir() + "/tests/fixtures/resample/" + name;
}

struct Golden {
  Shape shape;
  std::vector<float> values;
};

class parity_resample
    : public testing::TestWithParam<std::string> {  // NOLINT: ctest -R parity finds it
 protected:
  parity_resample() : file_(SafetensorsFile::open(folder_of(GetParam()) + "/golden.safetensors")) {}

  Golden golden(const std::string& name) const {
    const auto tensor = file_->find(name);
    EXPECT_TRUE(tensor && tensor->dtype == DType::kF32) << name;
    if (!tensor) return {};
    Golden golden{tensor->shape, std::vector<float>(static_cast<size_t>(tensor->values()))};
    std::memcpy(golden.values.data(), tensor->data, tensor->bytes);
    return golden;
  }
  // By the largest value that was expected.
  void expect_close(const std::string& name, const float* values) const {
    const Golden expected = golden(name);
    double largest = 0;
    double off = 0;
    for (size_t i = 0; i < expected.values.size(); ++i) {
      largest = std::max(largest, std::abs(double{expected.values[i]}));
      off = std::max(off, std::abs(double{values[i]} - expected.values[i]));
    }
    EXPECT_TRUE(off <= kTolerance * largest) << name << ": off by " << off << " of " << largest;
  }

  Result<SafetensorsFile> file_;
};

TEST_P(parity_resample, every_layer_and_token_is_what_transformers_computes) {
  ASSERT_TRUE(file_) << file_.error().message;
  Threads threads(2);
  const auto resampler = load_resampler(threads, folder_of(GetParam()), WeightFormat::kF32);
  ASSERT_TRUE(resampler) << resampler.error().message;
  const Golden states = golden("states");
  ASSERT_EQ(states.shape[1], resampler->state_size());
  int layers = 0;
  ResampleOptions options;
  options.on_layer = [&](int layer, const float* hidden) {
    expect_close("layer." + std::to_string(layer), hidden);
    EXPECT_EQ(layer, layers++);
  };
  const VisualTokens tokens =
      resampler->run(threads, states.values.data(), states.shape[0], options);
  const Golden expected = golden("tokens");
  ASSERT_EQ(tokens.count, expected.shape[0]);
  ASSERT_EQ(tokens.width, expected.shape[1]);
  EXPECT_EQ(tokens.count, resampler->tokens());
  ASSERT_EQ(tokens.features.size(), expected.values.size());
  expect_close("tokens", tokens.features.data());
  EXPECT_EQ(static_cast<size_t>(layers), file_->size() - 2) << "layers beside states and tokens";
}

// bf16 files have the very weights; sums are f32 either way.
TEST_P(parity_resample, weights_as_the_file_has_them_give_the_same) {
  Threads threads(1);
  const auto resampler = load_resampler(threads, folder_of(GetParam()));
  ASSERT_TRUE(resampler) << resampler.error().message;
  const Golden states = golden("states");
  expect_close("tokens",
               resampler->run(threads, states.values.data(), states.shape[0]).features.data());
}

TEST_P(parity_resample, threads_change_no_bit) {
  const Golden states = golden("states");
  std::vector<float> first;
  for (const int count : {1, 2, 5}) {
    Threads threads(count);
    const auto resampler = load_resampler(threads, folder_of(GetParam()));
    ASSERT_TRUE(resampler) << resampler.error().message;
    const VisualTokens tokens = resampler->run(threads, states.values.data(), states.shape[0]);
    const std::vector<float> values(tokens.features.begin(), tokens.features.end());
    if (first.empty()) first = values;
    EXPECT_TRUE(same_bits(first, values)) << count << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(golden, parity_resample, testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

TEST(Resample, EveryGoldenFolderIsCompared) {
  size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of("")))
    folders += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(folders, names().size());
}

// It keeps nothing of the folder, and knows what it holds.
TEST(Resample, WeightsAreItsOwn) {
  Threads threads(2);
  const auto as_stored = load_resampler(threads, folder_of("qformer_full"));
  const auto wide = load_resampler(threads, folder_of("qformer_full"), WeightFormat::kF32);
  ASSERT_TRUE(as_stored && wide);
  EXPECT_GT(as_stored->bytes(), 50'000u);
  EXPECT_GT(wide->bytes(), as_stored->bytes() * 3 / 2);
}

}  // namespace
}  // namespace fovea
