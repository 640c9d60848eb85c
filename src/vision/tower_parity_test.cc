// SPDX-License-Identifier: Apache-2.0
// The tower against transformers' Qwen3-VL, on what tools/golden/vision.py wrote.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "places.h"
#include "vision/test_towers.h"
#include "weights/safetensors.h"

namespace fovea {
namespace {

using nlohmann::json;
using test::StoredTensors;

// Both compute in f32 and sum in different orders, which costs about 1e-6; one GELU in place of the
// other is off by 3e-4, any other wrong step by far more.
constexpr double kTolerance = 1e-4;

std::string golden_path(const std::string& name) {
  return source_dir() + "/tests/fixtures/vision/" + name;
}

const json& goldens() {
  static const json all = [] {
    std::ifstream file(golden_path("goldens.json"));
    return json::parse(file);
  }();
  return all;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const json& golden : goldens().at("cases")) names.push_back(golden.at("name"));
  return names;
}

// Values stored as I8 are multiplied by the scale beside them.
std::vector<float> values_of(const SafetensorsFile& file, const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.values()));
  if (tensor.dtype == DType::kF32) {
    std::memcpy(values.data(), tensor.data, tensor.bytes);
    return values;
  }
  EXPECT_EQ(tensor.dtype, DType::kI8) << tensor.name;
  const auto scale = file.find(std::string(tensor.name) + ".scale");
  EXPECT_TRUE(scale) << tensor.name;
  float factor = 0;
  std::memcpy(&factor, scale->data, sizeof factor);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<const int8_t*>(tensor.data)[i]) * factor;
  return values;
}

StoredTensors read_tensors(const std::string& name) {
  const auto file = SafetensorsFile::open(golden_path(name));
  EXPECT_TRUE(file) << file.error().message;
  StoredTensors tensors;
  for (size_t i = 0; i < file->size(); ++i) {
    const TensorView tensor = file->tensor(i);
    if (tensor.dtype == DType::kI32 || tensor.name.ends_with(".scale")) continue;
    tensors[std::string(tensor.name)] = {tensor.shape, values_of(*file, tensor)};
  }
  return tensors;
}

// The settings as a model folder has them; what the tower does not use is made up.
VisionConfig golden_config(const json& vision) {
  const json text = {{"vocab_size", 8},         {"hidden_size", vision.at("out_hidden_size")},
                     {"intermediate_size", 8},  {"num_hidden_layers", 1},
                     {"head_dim", 8},           {"num_attention_heads", 1},
                     {"num_key_value_heads", 1}};
  const json config = {{"model_type", "qwen3_vl"},
                       {"image_token_id", 1},
                       {"text_config", text},
                       {"vision_config", vision}};
  const auto parsed = parse_config(config.dump());
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed->vision;
}

Patches golden_patches(const std::vector<Cell>& cells, Size canvas) {
  static const StoredTensors stored = read_tensors("patches.safetensors");
  Patches patches;
  patches.places = test::places_of(cells, canvas);
  patches.count = static_cast<int>(patches.places.size());
  patches.f32 = Buffer<float>(patches.places.size() * kPatchValues);
  std::copy_n(stored.at("patches").values.begin(), patches.f32.size(), patches.f32.begin());
  return patches;
}

class parity_vision
    : public testing::TestWithParam<std::string> {  // NOLINT: ctest -R parity finds it
 protected:
  static const json& golden() {
    const json& cases = goldens().at("cases");
    return *std::find_if(cases.begin(), cases.end(),
                         [](const json& one) { return one.at("name") == GetParam(); });
  }

  // Rows [first_row, first_row + rows) of the golden tensor.
  void expect_rows(const std::string& what, const float* values, int64_t first_row, int64_t rows) {
    static const StoredTensors outputs = read_tensors("outputs.safetensors");
    const auto found = outputs.find(GetParam() + "." + what);
    ASSERT_NE(found, outputs.end()) << what;
    const Shape& shape = found->second.shape;
    ASSERT_LE(first_row + rows, shape[0]) << what;
    const float* expected = found->second.values.data() + first_row * shape[1];
    const double off =
        test::relative_difference(values, expected, static_cast<size_t>(rows * shape[1]));
    EXPECT_LE(off, kTolerance) << what << ", rows from " << first_row;
    compared_ += rows == 0 ? 0 : 1;
  }

  // Encodes the cells [begin, end) and compares all that comes of it.
  void expect_part(const Tower& tower, const Patches& all, Size canvas, int begin, int end,
                   TowerMemory& memory) {
    Threads threads(2);
    const Patches patches = test::take_cells(all, test::range(begin, end));
    EncodeOptions options;
    options.size_bias = golden().at("size_bias").get<bool>();
    options.on_block = [&](int block, const float* hidden) {
      expect_rows("block." + std::to_string(block), hidden, int64_t{4} * begin, patches.count);
    };
    const VisualTokens tokens = *tower.encode(threads, patches, canvas, memory, options);
    ASSERT_EQ(tokens.count, end - begin);
    expect_rows("features", tokens.features.data(), begin, tokens.count);
    for (size_t i = 0; i < tokens.deepstack.size(); ++i)
      expect_rows("deepstack." + std::to_string(i), tokens.deepstack[i].data(), begin,
                  tokens.count);
  }

  int compared_ = 0;
};

TEST_P(parity_vision, every_block_and_token_is_what_transformers_computes) {
  const auto name = golden().at("tower").get<std::string>();
  const VisionConfig config = golden_config(goldens().at("towers").at(name));
  const StoredTensors tensors = read_tensors("tower_" + name + ".safetensors");
  const auto tower = Tower::build(config, test::source_of(tensors, WeightFormat::kF32));
  ASSERT_TRUE(tower) << tower.error().message;
  std::vector<Cell> cells;
  for (const json& cell : golden().at("cells"))
    cells.push_back({cell.at(0).get<int>(), cell.at(1).get<int>(), cell.at(2).get<int>()});
  const Size canvas{golden().at("canvas").at(0).get<int>(), golden().at("canvas").at(1).get<int>()};
  const Patches patches = golden_patches(cells, canvas);

  const int glance = golden().at("glance").get<int>();
  const int all = static_cast<int>(cells.size());
  const int results = config.depth + 1 + static_cast<int>(config.deepstack_taps.size());
  TowerMemory memory;
  if (glance > 0) expect_part(*tower, patches, canvas, 0, glance, memory);
  expect_part(*tower, patches, canvas, glance, all, memory);
  EXPECT_EQ(memory.patches(), patches.count);
  EXPECT_EQ(compared_, results * (glance > 0 ? 2 : 1));
}

INSTANTIATE_TEST_SUITE_P(golden, parity_vision, testing::ValuesIn(case_names()),
                         [](const auto& one) { return one.param; });

// "taps.6x14.20.weight" -> {6, 14, 20}
std::array<int, 3> grid_and_side(const std::string& name) {
  std::array<int, 3> numbers{};
  EXPECT_EQ(std::sscanf(name.c_str(), "taps.%dx%d.%d", &numbers[0], &numbers[1], &numbers[2]), 3);
  return numbers;
}

TEST(parity_vision_positions, taps_at_level_0_are_those_of_transformers_bit_for_bit) {
  const auto file = SafetensorsFile::open(golden_path("positions.safetensors"));
  ASSERT_TRUE(file) << file.error().message;
  int grids = 0;
  for (size_t i = 0; i < file->size(); ++i) {
    const std::string name(file->tensor(i).name);
    if (!name.starts_with("taps.") || !name.ends_with(".weight")) continue;
    ++grids;
    const auto [rows, cols, side] = grid_and_side(name);
    const Size canvas{cols * kPatchPx, rows * kPatchPx};
    const std::vector<PatchPlace> places = test::places_of(test::cover(canvas, 0), canvas);
    const std::vector<float> weights = values_of(*file, file->tensor(i));
    const auto indices = file->find(name.substr(0, name.size() - 6) + "index");
    ASSERT_TRUE(indices) << name;
    ASSERT_EQ(weights.size(), places.size() * 4) << name;
    for (size_t p = 0; p < places.size(); ++p) {
      const PositionTaps taps = position_taps(places[p], canvas, side);
      for (size_t t = 0; t < 4; ++t) {
        EXPECT_EQ(taps.index[t], static_cast<const int32_t*>(indices->data)[p * 4 + t])
            << name << ", patch " << p << ", tap " << t;
        EXPECT_EQ(taps.weight[t], weights[p * 4 + t]) << name << ", patch " << p << ", tap " << t;
      }
    }
  }
  EXPECT_EQ(grids, 8);
}

TEST(parity_vision_positions, rotary_angles_are_those_of_transformers) {
  // The places of the script; columns are those of the rows backwards.
  const std::vector<float> at = {0, 0.5f, 1, 1.5f, 3.5f, 7, 31, 63, 127.5f, 255, 1000};
  std::vector<PatchPlace> places;
  for (size_t i = 0; i < at.size(); ++i) places.push_back({at[i], at[at.size() - 1 - i], 0});
  Threads threads(1);
  int compared = 0;
  for (const auto& [name, tensor] : read_tensors("positions.safetensors")) {
    int head_dim = 0;
    float theta = 0;
    if (std::sscanf(name.c_str(), "rotary.%d.%f", &head_dim, &theta) != 2) continue;
    const RotaryAngles angles = rotary_angles(threads, places, head_dim, theta);
    const Buffer<float>& values = name.ends_with("cos") ? angles.cos : angles.sin;
    ASSERT_EQ(values.size(), tensor.values.size()) << name;
    // An inverse frequency may differ by its last bit, which a place of 1000 makes 1000 * 6e-8 *
    // inv_freq at most; cosines and sines themselves by theirs.
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], tensor.values[i], 2e-7 + 3e-8 * 1000) << name << ", index " << i;
    ++compared;
  }
  EXPECT_EQ(compared, 10);
}

}  // namespace
}  // namespace fovea
