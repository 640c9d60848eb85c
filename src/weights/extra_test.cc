// SPDX-License-Identifier: Apache-2.0
// fovea.safetensors: what a model of ours has beyond a stock one, checked like everything else.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weights/checkpoint.h"
#include "weights/loader.h"
#include "weights/memory_need.h"
#include "weights/model_tensors.h"
#include "weights/tensor_source.h"
#include "weights/test_files.h"

namespace fovea {
namespace {

using test::contains;
using test::Folder;
using test::TestTensor;

std::string config_with(const std::string& fovea) {
  auto json = nlohmann::json::parse(test::tiny_config());
  if (!fovea.empty()) json["fovea"] = nlohmann::json::parse(fovea);
  return json.dump();
}
const std::string kAll = R"({"gaze_layer":2,"gaze_size":5,"gaze_grid":2,"levels":3})";

std::vector<TestTensor> extra_of(const ModelConfig& config, DType dtype) {
  std::vector<TestTensor> tensors;
  for (const ExpectedTensor& tensor : extra_tensors(config))
    tensors.push_back(
        {tensor.name, dtype, tensor.shape, test::random_bytes(dtype, tensor.shape.values(), 7)});
  return tensors;
}

class ExtraTest : public testing::Test {
 protected:
  ExtraTest() {
    folder_.write("model.safetensors",
                  test::safetensors_bytes(test::tiny_tensors(config_, DType::kF32)));
    settings(kAll);
  }
  void settings(const std::string& fovea) {
    folder_.write("config.json", config_with(fovea));
    const auto config = parse_config(config_with(fovea));
    if (config) config_ = *config;
  }
  std::string open_with(const std::vector<TestTensor>& tensors) {
    folder_.write("fovea.safetensors", test::safetensors_bytes(tensors));
    return message();
  }
  std::string message() const {
    const auto checkpoint = Checkpoint::open(folder_.path());
    return checkpoint ? "good" : checkpoint.error().message;
  }

  Folder folder_;
  ModelConfig config_ = *parse_config(test::tiny_config());
};

TEST_F(ExtraTest, TensorsAreFoundInEveryFloatType) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    ASSERT_EQ(open_with(extra_of(config_, dtype)), "good");
    const auto checkpoint = Checkpoint::open(folder_.path());
    EXPECT_EQ(checkpoint->extra("level_embedding").shape, (Shape{3, 8}));
    EXPECT_EQ(checkpoint->extra("gaze.norm.weight").shape, (Shape{16}));
    EXPECT_EQ(checkpoint->extra("gaze.query.weight").shape, (Shape{5, 16}));
    EXPECT_EQ(checkpoint->extra("gaze.key.weight").shape, (Shape{2 * 2 * 5, 16}));
    Threads threads(1);
    Loader loader(threads, *checkpoint);
    const auto vision = vision_source(*checkpoint, loader, std::nullopt);
    EXPECT_EQ(vision.values("level_embedding")->size(), 24u);
    const auto text = text_source(*checkpoint, loader, std::nullopt);
    EXPECT_EQ(text.values("gaze.key.weight")->size(), 320u);
  }
  EXPECT_EQ(config_.gaze.layer, 2);
  EXPECT_EQ(config_.gaze.places(), 4);
}

TEST_F(ExtraTest, EachPartMayBeThereAlone) {
  settings(R"({"levels":2})");
  EXPECT_EQ(extra_tensors(config_).size(), 1u);
  EXPECT_EQ(open_with(extra_of(config_, DType::kF32)), "good");
  settings(R"({"gaze_layer":1,"gaze_size":4,"gaze_grid":1})");
  EXPECT_EQ(extra_tensors(config_).size(), 3u);
  EXPECT_EQ(open_with(extra_of(config_, DType::kF32)), "good");
}

TEST_F(ExtraTest, MissingAndMisshapenTensorsAreNamed) {
  const auto tensors = extra_of(config_, DType::kF32);
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto fewer = tensors;
    fewer.erase(fewer.begin() + static_cast<long>(i));
    EXPECT_TRUE(contains(open_with(fewer),
                         "fovea.safetensors: tensor \"" + tensors[i].name + "\" is missing"))
        << message();
    auto wrong = tensors;
    wrong[i].shape.size[0] += 1;
    wrong[i].data = test::random_bytes(DType::kF32, wrong[i].shape.values(), 1);
    const std::string said = open_with(wrong);
    EXPECT_TRUE(contains(said, tensors[i].name) && contains(said, wrong[i].shape.text()) &&
                contains(said, tensors[i].shape.text()))
        << said;
  }
}

TEST_F(ExtraTest, SettingsAndFileGoTogether) {
  EXPECT_TRUE(contains(message(), "there is no fovea.safetensors")) << message();
  const auto tensors = extra_of(config_, DType::kF32);
  settings("");
  EXPECT_TRUE(contains(open_with(tensors), "config.json has no \"fovea\"")) << message();
  for (const auto& [fovea, must_say] :
       {std::pair{R"({"gaze_layer":3,"gaze_size":5,"gaze_grid":2})", "gaze_layer"},
        {R"({"gaze_layer":0,"gaze_size":5,"gaze_grid":2})", "gaze_layer"},
        {R"({"gaze_layer":1,"gaze_size":5,"gaze_grid":3})", "power of two"},
        {R"({"gaze_size":5,"gaze_grid":2})", "gaze_layer"},
        {R"({"levels":-1})", "levels"},
        {R"({"levels":"three"})", "levels"},
        {R"([])", "fovea"}}) {
    settings(fovea);
    EXPECT_TRUE(contains(message(), must_say)) << message();
  }
}

TEST_F(ExtraTest, ADamagedFileIsRefused) {
  folder_.write("fovea.safetensors", "nonsense");
  EXPECT_TRUE(contains(message(), "fovea.safetensors")) << message();
}

TEST_F(ExtraTest, TheyCountAsParametersAndMemory) {
  const ModelConfig stock = *parse_config(test::tiny_config());
  const int64_t extra = 24 + 16 + 80 + 320;
  EXPECT_EQ(parameter_count(config_) - parameter_count(stock), extra);
  EXPECT_EQ(memory_need(config_, WeightFormat::kInt8, 0, 4).weights_bytes -
                memory_need(stock, WeightFormat::kInt8, 0, 4).weights_bytes,
            4 * extra)
      << "kept as f32 whatever the others are";
  ASSERT_EQ(open_with(extra_of(config_, DType::kF32)), "good");
  EXPECT_EQ(Checkpoint::open(folder_.path())->source_bytes(), 4 * parameter_count(config_));
}

}  // namespace
}  // namespace fovea
