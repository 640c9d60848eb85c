// SPDX-License-Identifier: Apache-2.0
#include "weights/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "places.h"
#include "weights/model_tensors.h"
#include "weights/test_files.h"

namespace fovea {
namespace {

using nlohmann::json;
using test::contains;

std::string fixture(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/fixtures/config/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string message(const std::string& config, const std::string& generation = "") {
  const auto parsed = parse_config(config, generation);
  return parsed ? "good" : parsed.error().message;
}

// The published settings with the value at `pointer` replaced ("" removes it).
std::string changed(const std::string& pointer, const json& value) {
  json config = json::parse(fixture("published_2b.json"));
  const json::json_pointer at(pointer);
  if (value.is_discarded())
    config[at.parent_pointer()].erase(at.back());
  else
    config[at] = value;
  return config.dump();
}

std::string message_with(const std::string& pointer, const json& value) {
  return message(changed(pointer, value));
}

const json kGone(json::value_t::discarded);

TEST(Config, PublishedAndTransformers5FormsAreTheSameModel) {
  for (const char* name : {"published_2b.json", "transformers5_2b.json"}) {
    const auto config = parse_config(fixture(name), fixture("published_generation.json"));
    ASSERT_TRUE(config) << config.error().message;
    const TextConfig& text = config->text;
    EXPECT_EQ(text.vocab_size, 151'936);
    EXPECT_EQ(text.hidden_size, 2048);
    EXPECT_EQ(text.intermediate_size, 6144);
    EXPECT_EQ(text.num_layers, 28);
    EXPECT_EQ(text.num_heads, 16);
    EXPECT_EQ(text.num_kv_heads, 8);
    EXPECT_EQ(text.head_dim, 128);
    EXPECT_FALSE(text.attention_bias);
    EXPECT_EQ(text.rms_norm_eps, 1e-6);
    EXPECT_EQ(text.rope_theta, 5e6);
    EXPECT_EQ(text.mrope_section, (std::array{24, 20, 20}));
    EXPECT_EQ(text.max_positions, 262'144);
    const VisionConfig& vision = config->vision;
    EXPECT_EQ(vision.depth, 24);
    EXPECT_EQ(vision.hidden_size, 1024);
    EXPECT_EQ(vision.intermediate_size, 4096);
    EXPECT_EQ(vision.num_heads, 16);
    EXPECT_EQ(vision.head_dim, 64);
    EXPECT_EQ(vision.out_hidden_size, 2048);
    EXPECT_EQ(vision.num_position_embeddings, 2304);
    EXPECT_EQ(vision.position_grid_side, 48);
    EXPECT_EQ(vision.rope_theta, 1e4);
    EXPECT_EQ(vision.deepstack_taps, (std::vector<DeepstackTap>{{5, 0}, {11, 1}, {17, 2}}));
    EXPECT_EQ(vision.deepstack_mergers, 3);
    EXPECT_TRUE(config->tie_word_embeddings);
    EXPECT_EQ(config->image_token_id, 151'655);
    EXPECT_EQ(config->video_token_id, 151'656);
    EXPECT_EQ(config->vision_start_token_id, 151'652);
    EXPECT_EQ(config->vision_end_token_id, 151'653);
    EXPECT_EQ(config->eos_token_ids, (std::vector{151'645, 151'643}));
    EXPECT_EQ(parameter_count(*config), 2'127'532'032);
  }
}

// What transformers makes of the same files was looked up by loading them.
TEST(Config, RopeSettingsGoByTransformersOrder) {
  const auto text = [](const std::string& pointer, const json& value) {
    const auto config = parse_config(changed(pointer, value));
    EXPECT_TRUE(config) << config.error().message;
    return config->text;
  };
  EXPECT_EQ(text("/text_config/rope_theta", kGone).rope_theta, 5e5);
  EXPECT_EQ(text("/text_config/rope_scaling/rope_theta", 3.0).rope_theta, 3.0);
  EXPECT_EQ(text("/text_config/rope_scaling", kGone).mrope_section, (std::array{24, 20, 20}));
  EXPECT_EQ(text("/text_config/rope_scaling", nullptr).rope_theta, 5e6);
  EXPECT_EQ(text("/text_config/rope_scaling", json{{"mrope_section", {1, 2, 3}}}).mrope_section,
            (std::array{1, 2, 3}));
  EXPECT_EQ(
      text("/text_config/rope_parameters", json{{"mrope_section", {1, 2, 3}}, {"rope_theta", 7.0}})
          .rope_theta,
      5e6)
      << "rope_scaling goes before rope_parameters";
}

TEST(Config, WhatIsMissingHasTransformersDefault) {
  const auto read = [](const std::string& pointer) {
    const auto config = parse_config(changed(pointer, kGone));
    EXPECT_TRUE(config) << pointer << ": " << config.error().message;
    return *config;
  };
  EXPECT_EQ(read("/text_config/head_dim").text.head_dim, 128);
  EXPECT_EQ(read("/text_config/rms_norm_eps").text.rms_norm_eps, 1e-6);
  EXPECT_EQ(read("/text_config/max_position_embeddings").text.max_positions, 128'000);
  EXPECT_EQ(read("/image_token_id").image_token_id, 151'655);
  EXPECT_TRUE(read("/tie_word_embeddings").tie_word_embeddings) << "the inner one stands for it";
  const VisionConfig vision = read("/vision_config/deepstack_visual_indexes").vision;
  EXPECT_EQ(vision.deepstack_mergers, 3);
  EXPECT_EQ(vision.deepstack_taps, (std::vector<DeepstackTap>{{8, 0}, {16, 1}}))
      << "the third of 8, 16, 24 is never reached by 24 blocks";
  for (const char* key :
       {"patch_size", "temporal_patch_size", "spatial_merge_size", "in_channels", "hidden_act"})
    read(std::string("/vision_config/") + key);
}

TEST(Config, DeepstackTapsComeInTheOrderOfTheBlocks) {
  const auto config =
      parse_config(changed("/vision_config/deepstack_visual_indexes", {11, 3, 99, 0}));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->vision.deepstack_taps, (std::vector<DeepstackTap>{{0, 3}, {3, 1}, {11, 0}}));
  EXPECT_EQ(config->vision.deepstack_mergers, 4);
  const auto none = parse_config(changed("/vision_config/deepstack_visual_indexes", json::array()));
  ASSERT_TRUE(none);
  EXPECT_EQ(none->vision.deepstack_mergers, 0);
}

TEST(Config, EndTokensAreANumberOrAList) {
  const std::string config = fixture("published_2b.json");
  const auto ids = [&](const std::string& generation) {
    const auto parsed = parse_config(config, generation);
    EXPECT_TRUE(parsed) << parsed.error().message;
    return parsed->eos_token_ids;
  };
  EXPECT_EQ(ids(R"({"eos_token_id":7})"), std::vector{7});
  EXPECT_EQ(ids(R"({"eos_token_id":[7,9]})"), (std::vector{7, 9}));
  EXPECT_EQ(ids(R"({})"), std::vector{151'645}) << "config.json's";
  EXPECT_EQ(ids(R"({"eos_token_id":null})"), std::vector{151'645});
  EXPECT_EQ(ids(""), std::vector{151'645});
  for (const char* bad :
       {R"({"eos_token_id":-1})", R"({"eos_token_id":[1,-1]})", R"({"eos_token_id":"x"})",
        R"({"eos_token_id":1e30})", R"({"eos_token_id":4294967296})", "[]", "{"})
    EXPECT_TRUE(contains(message(config, bad), "generation_config.json")) << bad;
}

TEST(Config, HostileSizesAreRefusedByName) {
  const std::vector<std::string> sizes = {"text_config.vocab_size",
                                          "text_config.hidden_size",
                                          "text_config.intermediate_size",
                                          "text_config.num_hidden_layers",
                                          "text_config.num_attention_heads",
                                          "text_config.num_key_value_heads",
                                          "vision_config.depth",
                                          "vision_config.hidden_size",
                                          "vision_config.intermediate_size",
                                          "vision_config.num_heads",
                                          "vision_config.out_hidden_size",
                                          "vision_config.num_position_embeddings"};
  for (const std::string& name : sizes) {
    const std::string pointer =
        "/" + name.substr(0, name.find('.')) + "/" + name.substr(name.find('.') + 1);
    EXPECT_EQ(message_with(pointer, kGone), "cannot use config.json: " + name + " is missing");
    for (const json& value :
         {json(0), json(-1), json(1'000'000'000'000), json(UINT64_MAX), json(INT64_MIN), json(2.5),
          json(1e300), json("16"), json(true), json(json::array()), json(json::object())}) {
      const std::string said = message_with(pointer, value);
      EXPECT_TRUE(contains(said, name + " is ")) << said;
      EXPECT_TRUE(contains(said, "must be a whole number from 1 to")) << said;
    }
  }
}

TEST(Config, SizesThatDoNotFitAreRefused) {
  EXPECT_TRUE(contains(message_with("/text_config/num_key_value_heads", 7),
                       "num_attention_heads is 16, which num_key_value_heads = 7 does not divide"));
  EXPECT_TRUE(contains(message_with("/text_config/num_key_value_heads", 32), "does not divide"));
  EXPECT_TRUE(contains(message_with("/vision_config/num_heads", 15),
                       "hidden_size is 1024, which num_heads = 15 does not divide"));
  EXPECT_TRUE(contains(message_with("/vision_config/num_heads", 512), "a multiple of 4"));
  EXPECT_TRUE(contains(message_with("/text_config/head_dim", 127), "an even one"));
  EXPECT_TRUE(contains(message_with("/text_config/hidden_size", 1024),
                       "out_hidden_size is 2048, but text_config.hidden_size is 1024"));
  EXPECT_TRUE(contains(message_with("/text_config/vocab_size", 151'655),
                       "image_token_id is 151655, but text_config.vocab_size is 151655"));
}

TEST(Config, UnsupportedSettingsAreNamed) {
  EXPECT_TRUE(contains(message_with("/vision_config/patch_size", 0),
                       "patch_size is 0; only 16 is supported"));
  EXPECT_TRUE(contains(message_with("/vision_config/patch_size", 14), "patch_size is 14"));
  EXPECT_TRUE(
      contains(message_with("/vision_config/patch_size", {16, 16}), "patch_size is [16,16]"));
  EXPECT_TRUE(
      contains(message_with("/vision_config/spatial_merge_size", 3), "only 2 is supported"));
  EXPECT_TRUE(
      contains(message_with("/vision_config/temporal_patch_size", 1), "only 2 is supported"));
  EXPECT_TRUE(contains(message_with("/vision_config/in_channels", 4), "only 3 is supported"));
  EXPECT_TRUE(
      contains(message_with("/vision_config/hidden_act", "relu"), "only \"gelu_pytorch_tanh\""));
  EXPECT_TRUE(
      contains(message_with("/text_config/hidden_act", "gelu"), "is \"gelu\"; only \"silu\""));
  EXPECT_TRUE(contains(message_with("/text_config/rope_scaling/rope_type", "yarn"),
                       "is \"yarn\"; only \"default\""));
  EXPECT_TRUE(
      contains(message_with("/text_config/rope_scaling", {{"type", "mrope"}}), "only \"default\""));
  EXPECT_TRUE(
      contains(message_with("/text_config/rope_scaling/mrope_section", {1, 2}), "three numbers"));
  EXPECT_TRUE(contains(message_with("/text_config/rope_scaling/mrope_section", {1, 2, -3}),
                       "mrope_section"));
  EXPECT_TRUE(contains(message_with("/vision_config/rope_parameters", {{"rope_type", "default"}}),
                       "only \"axial\""));
  EXPECT_TRUE(contains(message_with("/vision_config/deepstack_visual_indexes", {1, 1}), "twice"));
  EXPECT_TRUE(contains(message_with("/vision_config/deepstack_visual_indexes", {-1}),
                       "deepstack_visual_indexes"));
  EXPECT_TRUE(
      contains(message_with("/vision_config/deepstack_visual_indexes", std::vector<int>(1000, 1)),
               "is a list of 1000"));
  EXPECT_TRUE(contains(message_with("/quantization_config", {{"quant_method", "fp8"}}),
                       "quantization_config"));
  const std::string other = message_with("/model_type", "llava");
  EXPECT_TRUE(contains(
      other, "model_type is \"llava\" (\"Qwen3VLForConditionalGeneration\"); only \"qwen3_vl\""))
      << other;
  EXPECT_TRUE(contains(message_with("/model_type", "qwen3_vl_moe"), "qwen3_vl_moe"));
  EXPECT_TRUE(contains(message("{}"), "model_type is missing"));
}

TEST(Config, HostileNumbersAreRefused) {
  for (const json& value :
       {json(0), json(-1e-6), json(1e300), json("small"), json(1), json(1e-300)})
    EXPECT_TRUE(contains(message_with("/text_config/rms_norm_eps", value), "rms_norm_eps is"))
        << value;
  for (const json& value : {json(0), json(-5e6), json(1e300), json("x")})
    EXPECT_TRUE(contains(message_with("/text_config/rope_theta", value), "rope_theta is")) << value;
  for (const char* id :
       {"/image_token_id", "/video_token_id", "/vision_start_token_id", "/vision_end_token_id"})
    for (const json& value :
         {json(-1), json(4'294'967'296), json(UINT64_MAX), json(1.5), json("x")})
      EXPECT_TRUE(contains(message_with(id, value), std::string(id + 1) + " is ")) << id << value;
  std::string text = fixture("published_2b.json");
  const std::string epsilon = "1e-06";
  for (const char* value : {"NaN", "Infinity", "-Infinity", "1e999", "nan"}) {
    std::string bad = text;
    bad.replace(bad.find(epsilon), epsilon.size(), value);
    EXPECT_TRUE(contains(message(bad), "cannot use config.json: "))
        << value << ": " << message(bad);
  }
}

TEST(Config, WhatIsNoObjectOfSettingsIsRefused) {
  for (const char* text :
       {"", "null", "[]", "{", "\"x\"", "{\"a\":1,}", "{\"a\":\"\xff\"}", "// x\n{}"})
    EXPECT_TRUE(contains(message(text), "cannot use config.json")) << text;
  EXPECT_TRUE(contains(message(R"({"model_type":"a","model_type":"qwen3_vl"})"),
                       "the key \"model_type\" is there twice"));
  EXPECT_TRUE(contains(message(R"({"a":{"b":1,"b":2}})"), "the key \"b\" is there twice"));
  EXPECT_FALSE(contains(message(R"({"a":{"b":1},"c":{"b":2}})"), "twice"));
  EXPECT_TRUE(
      contains(message("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
               "more than 64 levels"));
  std::string objects;
  for (int i = 0; i < 50'000; ++i) objects += "{\"a\":";
  EXPECT_TRUE(contains(message(objects), "cannot use config.json"));
  EXPECT_TRUE(contains(message_with("/text_config", kGone), "text_config is missing"));
  EXPECT_TRUE(
      contains(message_with("/vision_config", {1}), "vision_config is [1]; it must be an object"));
}

TEST(ProcessorConfig, PublishedAndTransformers5FormsAreTheSame) {
  for (const char* name : {"published_preprocessor.json", "transformers5_processor.json"}) {
    const auto config = parse_processor_config(name, fixture(name));
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->min_pixels, 65'536);
    EXPECT_EQ(config->max_pixels, 16'777'216);
  }
  const auto older = parse_processor_config(
      "p",
      R"({"min_pixels":3136,"max_pixels":12845056,"size":{"shortest_edge":1,"longest_edge":2}})");
  ASSERT_TRUE(older);
  EXPECT_EQ(older->min_pixels, 3136);
  EXPECT_EQ(older->max_pixels, 12'845'056);
  const auto bare = parse_processor_config("p", "{}");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->min_pixels, 3136) << "the default of transformers' class";
}

TEST(ProcessorConfig, HostileSettingsAreRefused) {
  const auto said = [](const std::string& text) {
    const auto config = parse_processor_config("preprocessor_config.json", text);
    return config ? "good" : config.error().message;
  };
  for (const char* bad : {R"({"size":{"shortest_edge":0}})",
                          R"({"size":{"shortest_edge":-5}})",
                          R"({"size":{"shortest_edge":1000000000000000000}})",
                          R"({"min_pixels":4194305})",
                          R"({"size":{"shortest_edge":16777216}})",
                          R"({"min_pixels":1e3})",
                          R"({"max_pixels":0})",
                          R"({"max_pixels":99999999999})",
                          R"({"min_pixels":5000,"max_pixels":4999})",
                          R"({"size":3})",
                          R"({"size":[1,2]})",
                          R"({"patch_size":14})",
                          R"({"patch_size":0})",
                          R"({"merge_size":1})",
                          R"({"temporal_patch_size":1})",
                          R"({"image_mean":[0.48,0.45,0.4]})",
                          R"({"image_std":[0.5,0.5]})",
                          R"({"image_std":0.5})",
                          R"({"image_mean":["a"]})",
                          R"({"do_resize":false})",
                          R"({"do_normalize":false})",
                          R"({"do_rescale":0})",
                          R"({"rescale_factor":1})",
                          R"({"rescale_factor":"x"})",
                          R"({"resample":2})",
                          R"({"image_processor":1})",
                          "[]",
                          ""})
    EXPECT_TRUE(contains(said(bad), "cannot use preprocessor_config.json"))
        << bad << ": " << said(bad);
}

TEST(ProcessorConfig, TheNewerFileGoesBeforeTheOlder) {
  const test::Folder folder;
  const auto read = [&] {
    const auto opened = ModelFolder::open(folder.path());
    return *read_processor_config(*opened);
  };
  EXPECT_EQ(read().min_pixels, 65'536) << "Qwen3-VL's own";
  folder.write("preprocessor_config.json", R"({"min_pixels":4000})");
  EXPECT_EQ(read().min_pixels, 4000);
  folder.write("processor_config.json", R"({"processor_class":"Qwen3VLProcessor"})");
  EXPECT_EQ(read().min_pixels, 4000) << "nothing for images in the newer one";
  folder.write("processor_config.json", R"({"image_processor":{"min_pixels":5000}})");
  EXPECT_EQ(read().min_pixels, 5000);
}

}  // namespace
}  // namespace fovea
