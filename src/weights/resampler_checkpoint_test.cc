// SPDX-License-Identifier: Apache-2.0
#include "weights/resampler_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/load_resampler.h"
#include "weights/test_files.h"

namespace fovea {
namespace {

using test::contains;
using test::Folder;

constexpr const char* kQFormer =
    R"({"model_type":"blip-2","num_query_tokens":3,"vision_config":{"hidden_size":6},)"
    R"("qformer_config":{"hidden_size":8,"num_hidden_layers":3,"num_attention_heads":2,)"
    R"("intermediate_size":5,"cross_attention_frequency":2}})";
constexpr const char* kPerceiver =
    R"({"model_type":"idefics2","vision_config":{"hidden_size":6},)"
    R"("text_config":{"hidden_size":8,"intermediate_size":7},)"
    R"("perceiver_config":{"hidden_size":8,"resampler_n_latents":3,"resampler_depth":2,)"
    R"("resampler_n_heads":4,"resampler_head_dim":4,"num_key_value_heads":2}})";

// A folder that loads, to be damaged.
class ResamplerFolder : public testing::TestWithParam<const char*> {
 protected:
  ResamplerFolder() : config_(GetParam()) {
    auto parsed = parse_resampler_config(config_);
    EXPECT_TRUE(parsed) << parsed.error().message;
    const bool is_qformer = std::holds_alternative<QFormerConfig>(*parsed);
    if (is_qformer) std::get<QFormerConfig>(*parsed).token_size = 9;
    prefix_ = is_qformer ? "" : "model.connector.";
    uint32_t seed = 0;
    for (const ExpectedTensor& tensor : resampler_tensors(*parsed))
      tensors_.push_back({prefix_ + tensor.name, DType::kF32, tensor.shape,
                          test::f32_bytes(values_of(tensor.shape, ++seed))});
  }
  static std::vector<float> values_of(const Shape& shape, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 0.3f);
    std::vector<float> values(static_cast<size_t>(shape.values()));
    for (float& value : values) value = normal(random);
    return values;
  }
  std::string load_error() {
    folder_.write("config.json", config_);
    folder_.write("model.safetensors", test::safetensors_bytes(tensors_));
    Threads threads(2);
    const auto loaded = load_resampler(threads, folder_.path());
    if (loaded) return "";
    EXPECT_EQ(loaded.error().kind, Error::Kind::kBadInput);
    EXPECT_EQ(loaded.error().message.find('\n'), std::string::npos);
    return loaded.error().message;
  }

  Folder folder_;
  std::string config_;
  std::string prefix_;
  std::vector<test::TestTensor> tensors_;
};

TEST_P(ResamplerFolder, LoadsWithoutTheOtherModels) { EXPECT_EQ(load_error(), ""); }

TEST_P(ResamplerFolder, LoadsFromInsideOfAnotherModel) {
  for (test::TestTensor& tensor : tensors_)
    tensor.name = prefix_.empty() ? "model." + tensor.name : tensor.name.substr(6);
  EXPECT_EQ(load_error(), "");
}

TEST_P(ResamplerFolder, EveryTensorMustBeThere) {
  const std::vector<test::TestTensor> all = tensors_;
  for (size_t i = 0; i < all.size(); ++i) {
    tensors_ = all;
    tensors_.erase(tensors_.begin() + static_cast<ptrdiff_t>(i));
    const std::string error = load_error();
    EXPECT_TRUE(contains(error, all[i].name) && contains(error, "missing")) << error;
  }
}

TEST_P(ResamplerFolder, EveryTensorMustHaveItsShape) {
  const std::vector<test::TestTensor> all = tensors_;
  for (size_t i = 0; i < all.size(); ++i) {
    tensors_ = all;
    const Shape longer{all[i].shape.values() + 1};
    tensors_[i] = {all[i].name, DType::kF32, longer, test::f32_bytes(values_of(longer, 1))};
    const std::string error = load_error();
    EXPECT_TRUE(contains(error, all[i].name) && contains(error, longer.text())) << error;
  }
}

TEST_P(ResamplerFolder, EveryValueMustBeFinite) {
  const std::vector<test::TestTensor> all = tensors_;
  for (size_t i = 0; i < all.size(); ++i) {
    tensors_ = all;
    std::vector<float> values = values_of(all[i].shape, 1);
    values.back() = i % 2 == 0 ? NAN : INFINITY;
    tensors_[i].data = test::f32_bytes(values);
    const std::string error = load_error();
    EXPECT_TRUE(contains(error, all[i].name) &&
                contains(error, i % 2 == 0 ? "NaN" : "an infinite value"))
        << error;
  }
}

TEST_P(ResamplerFolder, OtherTypesAreRefused) {
  tensors_.back().dtype = DType::kI32;
  EXPECT_TRUE(contains(load_error(), "only F32, F16 and BF16 are supported"));
}

TEST_P(ResamplerFolder, AFileThatIsCutOffIsRefused) {
  folder_.write("config.json", config_);
  const std::string bytes = test::safetensors_bytes(tensors_);
  Threads threads(1);
  for (const size_t left :
       {size_t{0}, size_t{7}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    folder_.write("model.safetensors", bytes.substr(0, left));
    EXPECT_FALSE(load_resampler(threads, folder_.path())) << left;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ResamplerFolder, testing::Values(kQFormer, kPerceiver),
                         [](const auto& one) { return one.index == 0 ? "QFormer" : "Perceiver"; });

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  EXPECT_TRUE(contains(text, what)) << what;
  return text.replace(text.find(what), what.size(), with);
}

TEST(ResamplerConfig, WhatIsNotThereIsAsInTransformers) {
  const auto qformer = parse_resampler_config(R"({"model_type":"blip-2"})");
  ASSERT_TRUE(qformer) << qformer.error().message;
  const auto& q = std::get<QFormerConfig>(*qformer);
  EXPECT_EQ(q.queries, 32);
  EXPECT_EQ(q.state_size, 1408);
  EXPECT_EQ(q.hidden_size, 768);
  EXPECT_EQ(q.head_dim, 64);
  EXPECT_EQ(q.num_layers, 12);
  EXPECT_EQ(q.cross_every, 2);
  EXPECT_EQ(q.layer_norm_eps, 1e-12);
  const auto perceiver = parse_resampler_config(R"({"model_type":"idefics2"})");
  ASSERT_TRUE(perceiver) << perceiver.error().message;
  const auto& p = std::get<PerceiverConfig>(*perceiver);
  EXPECT_EQ(p.latents, 64);
  EXPECT_EQ(p.state_size, 768);
  EXPECT_EQ(p.projection_size, 14'336);
  EXPECT_EQ(p.hidden_size, 4096);
  EXPECT_EQ(p.num_layers, 3);
  EXPECT_EQ(p.num_heads, 16);
  EXPECT_EQ(p.num_kv_heads, 4);
  EXPECT_EQ(p.head_dim, 96);
  EXPECT_EQ(p.rms_norm_eps, 1e-6);
}

TEST(ResamplerConfig, BadSettingsAreRefusedByName) {
  const auto expect_refused = [](const std::string& config, const std::string& named) {
    const auto parsed = parse_resampler_config(config);
    ASSERT_FALSE(parsed) << config;
    EXPECT_TRUE(contains(parsed.error().message, named)) << parsed.error().message;
  };
  expect_refused("[]", "no JSON object");
  expect_refused("{}", "model_type");
  expect_refused(R"({"model_type":"qwen3_vl"})", "\"blip-2\"");
  expect_refused(R"({"model_type":"blip-2","quantization_config":{}})", "quantization_config");
  const std::string q = kQFormer;
  expect_refused(replaced(q, "\"num_query_tokens\":3", "\"num_query_tokens\":0"),
                 "num_query_tokens");
  expect_refused(replaced(q, "\"num_query_tokens\":3", "\"num_query_tokens\":1e9"),
                 "num_query_tokens");
  expect_refused(replaced(q, "\"num_attention_heads\":2", "\"num_attention_heads\":3"),
                 "not divide");
  expect_refused(replaced(q, "\"num_attention_heads\":2", "\"num_attention_heads\":4"),
                 "multiple of 4");
  expect_refused(replaced(q, "\"intermediate_size\":5", "\"hidden_act\":\"relu\""), "hidden_act");
  expect_refused(replaced(q, "\"intermediate_size\":5", "\"layer_norm_eps\":-1"), "layer_norm_eps");
  const std::string p = kPerceiver;
  expect_refused(replaced(p, "\"resampler_depth\":2", "\"resampler_depth\":-2"), "resampler_depth");
  expect_refused(replaced(p, "\"num_key_value_heads\":2", "\"num_key_value_heads\":3"),
                 "not divide");
  expect_refused(replaced(p, "\"resampler_head_dim\":4", "\"resampler_head_dim\":260"),
                 "multiple of 4");
  expect_refused(
      replaced(p, "\"perceiver_config\":{", "\"perceiver_config\":{\"hidden_act\":\"gelu\","),
      "perceiver_config.hidden_act");
  expect_refused(replaced(p, "\"text_config\":{", "\"text_config\":{\"hidden_act\":\"gelu\","),
                 "text_config.hidden_act");
}

TEST(ResamplerConfig, AFolderWithoutOneIsRefused) {
  Threads threads(1);
  EXPECT_FALSE(load_resampler(threads, "/nowhere/at/all"));
  const Folder folder;
  const auto loaded = load_resampler(threads, folder.path());
  ASSERT_FALSE(loaded);
  EXPECT_TRUE(contains(loaded.error().message, "config.json")) << loaded.error().message;
}

}  // namespace
}  // namespace fovea
