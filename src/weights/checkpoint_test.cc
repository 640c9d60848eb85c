// SPDX-License-Identifier: Apache-2.0
#include "weights/checkpoint.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "places.h"
#include "weights/model_tensors.h"
#include "weights/test_files.h"

namespace fovea {
namespace {

using test::contains;
using test::Folder;
using test::TestTensor;
namespace fs = std::filesystem;

std::string fixture(const std::string& name) {
  return source_dir() + "/tests/fixtures/checkpoint/" + name;
}

double value_of(const TensorView& tensor, int64_t i) {
  if (tensor.dtype == DType::kF32) return static_cast<const float*>(tensor.data)[i];
  const uint32_t bits = static_cast<const uint16_t*>(tensor.data)[i];
  if (tensor.dtype == DType::kBf16) return std::bit_cast<float>(bits << 16);
  const int exponent = static_cast<int>((bits >> 10) & 31);
  const double mantissa = bits & 1023;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

// Files that transformers' save_pretrained wrote, against what transformers loads from them.
TEST(Checkpoint, ReadsWhatTransformersWrites) {
  std::ifstream file(fixture("sums.json"));
  const nlohmann::json sums = nlohmann::json::parse(file);
  struct Case {
    std::string name;
    DType dtype;
  };
  for (const Case& saved :
       {Case{"tied_f32", DType::kF32}, {"sharded_bf16", DType::kBf16}, {"base_f16", DType::kF16}}) {
    const auto checkpoint = Checkpoint::open(fixture(saved.name));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->head_is_tied(), saved.name != "sharded_bf16");
    EXPECT_EQ(checkpoint->config().eos_token_ids, std::vector{35});
    size_t seen = 0;
    const auto compare = [&](const std::string& full_name, const TensorView& tensor) {
      const nlohmann::json& expected = sums[saved.name][full_name];
      ASSERT_TRUE(expected.is_array()) << full_name;
      EXPECT_EQ(tensor.dtype, saved.dtype);
      nlohmann::json shape = nlohmann::json::array();
      for (int i = 0; i < tensor.shape.rank; ++i) shape.push_back(tensor.shape[i]);
      EXPECT_EQ(shape, expected[0]) << full_name;
      double sum = 0;
      for (int64_t i = 0; i < tensor.values(); ++i) sum += value_of(tensor, i);
      EXPECT_NEAR(sum, expected[1].get<double>(), 1e-9 * static_cast<double>(tensor.values()))
          << full_name << ": both sums are of doubles, their order differs";
      EXPECT_EQ(value_of(tensor, tensor.values() - 1), expected[2].get<double>()) << full_name;
      ++seen;
    };
    for (const auto& tensor : vision_tensors(checkpoint->config().vision))
      compare("model.visual." + tensor.name, checkpoint->vision(tensor.name));
    for (const auto& tensor : text_tensors(checkpoint->config().text))
      compare("model.language_model." + tensor.name, checkpoint->text(tensor.name));
    compare("lm_head.weight", checkpoint->head());
    EXPECT_EQ(seen, sums[saved.name].size()) << "every tensor of transformers' model is expected";
  }
}

class CheckpointTest : public testing::Test {
 protected:
  void settings(bool tied = true) {
    folder_.write("config.json", test::tiny_config(tied));
    config_ = *parse_config(test::tiny_config(tied));
  }
  std::string open_with(const std::vector<TestTensor>& tensors) {
    folder_.write("model.safetensors", test::safetensors_bytes(tensors));
    return message();
  }
  std::string message() const {
    const auto checkpoint = Checkpoint::open(folder_.path());
    return checkpoint ? "good" : checkpoint.error().message;
  }
  static TestTensor& named(std::vector<TestTensor>& tensors, const std::string& name) {
    for (TestTensor& tensor : tensors)
      if (tensor.name == name) return tensor;
    ADD_FAILURE() << name;
    return tensors.front();
  }

  Folder folder_;
  ModelConfig config_;
};

TEST_F(CheckpointTest, AllFloatTypesAndAllNamingsAreRead) {
  for (const bool tied : {true, false}) {
    settings(tied);
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16})
      EXPECT_EQ(open_with(test::tiny_tensors(config_, dtype)), "good") << dtype_name(dtype);
    for (const auto& [vision, text] : {std::pair{"visual.", "language_model."},
                                       {"visual.", "model."},
                                       {"visual.", "language_model.model."},
                                       {"model.visual.", "model."}}) {
      EXPECT_EQ(open_with(test::tiny_tensors(config_, DType::kF32, vision, text)), "good") << text;
      const auto checkpoint = Checkpoint::open(folder_.path());
      EXPECT_EQ(checkpoint->text("norm.weight").name, std::string(text) + "norm.weight");
      EXPECT_EQ(checkpoint->vision("blocks.1.attn.qkv.weight").shape, (Shape{24, 8}));
    }
  }
}

TEST_F(CheckpointTest, SourceBytesAreThoseOfTheModel) {
  for (const bool tied : {true, false}) {
    settings(tied);
    auto tensors = test::tiny_tensors(config_, DType::kBf16);
    tensors.push_back({"something.else", DType::kI64, {2}, std::string(16, 'x')});
    ASSERT_EQ(open_with(tensors), "good") << "tensors that the model does not use do no harm";
    EXPECT_EQ(Checkpoint::open(folder_.path())->source_bytes(), 2 * parameter_count(config_));
  }
}

TEST_F(CheckpointTest, EveryMissingTensorIsNamedWithItsShape) {
  settings(false);
  const auto tensors = test::tiny_tensors(config_, DType::kBf16);
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto fewer = tensors;
    fewer.erase(fewer.begin() + static_cast<long>(i));
    const std::string said = open_with(fewer);
    // Without the tensor that tells the naming, the published names are asked for: the same here.
    EXPECT_TRUE(contains(said, "tensor \"" + tensors[i].name +
                                   "\" is missing (the shape that config.json asks for is " +
                                   tensors[i].shape.text() + ")"))
        << said;
  }
}

TEST_F(CheckpointTest, EveryWrongShapeIsNamedWithBothShapes) {
  settings(false);
  const auto tensors = test::tiny_tensors(config_, DType::kF16);
  for (const TestTensor& tensor : tensors) {
    auto wrong = tensors;
    TestTensor& changed = named(wrong, tensor.name);
    changed.shape.size[0] += 1;
    changed.data = test::random_bytes(DType::kF16, changed.shape.values(), 1);
    const std::string said = open_with(wrong);
    EXPECT_TRUE(contains(said, tensor.name) && contains(said, changed.shape.text()) &&
                contains(said, "config.json asks for is " + tensor.shape.text()))
        << said;
  }
  auto flat = tensors;
  TestTensor& patch = named(flat, "model.visual.patch_embed.proj.weight");
  patch.shape = {8, 3 * 2 * 16 * 16};
  EXPECT_TRUE(contains(open_with(flat),
                       "has the shape [8, 1536] (the shape that config.json asks for "
                       "is [8, 3, 2, 16, 16])"));
}

TEST_F(CheckpointTest, TypesThatAreNotRead) {
  settings();
  auto tensors = test::tiny_tensors(config_, DType::kF16);
  named(tensors, "model.language_model.norm.weight").dtype = DType::kI16;
  EXPECT_TRUE(
      contains(open_with(tensors), "norm.weight\" is I16; only F32, F16 and BF16 are supported"));
}

TEST_F(CheckpointTest, ATensorBetweenElementsIsRefused) {
  settings();
  auto tensors = test::tiny_tensors(config_, DType::kF32);
  tensors.insert(tensors.begin(), {"odd", DType::kU8, {1}, "x"});
  EXPECT_TRUE(contains(open_with(tensors), "does not lie at a multiple of its element"));
}

// transformers ties by either of the two, and not at all where both are there and differ.
TEST_F(CheckpointTest, TheHeadIsTiedAsTransformersTiesIt) {
  settings(true);
  auto tensors = test::tiny_tensors(config_, DType::kF32);
  const std::string embedding = "model.language_model.embed_tokens.weight";
  const auto head_of = [&] {
    EXPECT_EQ(open_with(tensors), "good");
    const auto checkpoint = Checkpoint::open(folder_.path());
    return std::pair(checkpoint->head_is_tied(), std::string(checkpoint->head().name));
  };
  EXPECT_EQ(head_of(), std::pair(true, embedding));
  tensors.push_back(named(tensors, embedding));
  tensors.back().name = "lm_head.weight";
  EXPECT_EQ(head_of(), std::pair(true, embedding)) << "the same values";
  tensors.back().data[2] = static_cast<char>(tensors.back().data[2] ^ 1);
  EXPECT_EQ(head_of(), std::pair(false, std::string("lm_head.weight")));
  named(tensors, embedding).name = "unused";
  EXPECT_EQ(head_of(), std::pair(true, std::string("lm_head.weight")))
      << "stored with its head alone";
}

TEST_F(CheckpointTest, ErrorsNameTheFolder) {
  EXPECT_TRUE(
      contains(message(), "cannot load \"" + folder_.path() + "\": there is no config.json"));
  settings();
  EXPECT_TRUE(contains(message(), "neither model.safetensors nor"));
  ASSERT_EQ(open_with(test::tiny_tensors(config_, DType::kBf16)), "good");
  folder_.write("preprocessor_config.json", "{\"patch_size\":14}");
  EXPECT_TRUE(contains(message(), "patch_size is 14"));
  fs::remove(folder_.path("preprocessor_config.json"));
  folder_.write("generation_config.json", "{");
  EXPECT_TRUE(contains(message(), "generation_config.json"));
  fs::remove(folder_.path("generation_config.json"));
  folder_.write("config.json", std::string(2'000'000, ' '));
  EXPECT_TRUE(contains(message(), "has 2,000,000 bytes; at most 1,048,576 are read"));
}

}  // namespace
}  // namespace fovea
