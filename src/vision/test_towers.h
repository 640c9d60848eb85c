// SPDX-License-Identifier: Apache-2.0
// What the tests of this room share: towers of given or random weights, patches of given cells.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "patches/patches.h"
#include "vision/vision.h"
#include "weights/model_tensors.h"

namespace fovea::test {

struct StoredTensor {
  Shape shape;
  std::vector<float> values;
};
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// Copies, so that the tower does not depend on the tensors.
inline TensorSource source_of(const StoredTensors& tensors, WeightFormat format) {
  return {[&tensors, format](std::string_view name) -> Result<Matrix> {
            const auto found = tensors.find(name);
            if (found == tensors.end()) return failed("no tensor " + std::string(name));
            const int64_t rows = found->second.shape[0];
            Matrix matrix(rows, found->second.shape.values() / rows, format);
            matrix.pack_rows({WeightSource::Type::kF32, found->second.values.data()}, 0, rows);
            return matrix;
          },
          [&tensors](std::string_view name) -> Result<Buffer<float>> {
            const auto found = tensors.find(name);
            if (found == tensors.end()) return failed("no tensor " + std::string(name));
            Buffer<float> values(found->second.values.size());
            std::copy(found->second.values.begin(), found->second.values.end(), values.begin());
            return values;
          }};
}

struct TowerSize {
  int depth = 2;
  int heads = 2;
  int head_dim = 8;
  int intermediate = 40;
  int table_side = 5;
  std::vector<int> taps = {0};
  int out = 12;
};

inline VisionConfig config_of(const TowerSize& size) {
  VisionConfig config;
  config.depth = size.depth;
  config.hidden_size = size.heads * size.head_dim;
  config.intermediate_size = size.intermediate;
  config.num_heads = size.heads;
  config.head_dim = size.head_dim;
  config.out_hidden_size = size.out;
  config.num_position_embeddings = size.table_side * size.table_side;
  config.position_grid_side = size.table_side;
  for (size_t i = 0; i < size.taps.size(); ++i)
    config.deepstack_taps.push_back({size.taps[i], static_cast<int>(i)});
  config.deepstack_mergers = static_cast<int>(size.taps.size());
  return config;
}

// Activations stay near 1: matrices by their number of inputs, norms around 1, biases around 0.
inline StoredTensors random_tensors(const VisionConfig& config, uint32_t seed) {
  std::mt19937 random(seed);
  StoredTensors tensors;
  for (const ExpectedTensor& expected : vision_tensors(config)) {
    const bool is_vector = expected.shape.rank == 1;
    const bool is_gain = is_vector && expected.name.ends_with(".weight");
    const auto inputs = static_cast<double>(expected.shape.values() / expected.shape[0]);
    const bool is_table = expected.name == "pos_embed.weight";
    const double spread = is_vector ? 0.3 : is_table ? 0.5 : 1 / std::sqrt(inputs);
    std::normal_distribution<double> normal(is_gain ? 1 : 0, spread);
    StoredTensor tensor{expected.shape, {}};
    tensor.values.resize(static_cast<size_t>(expected.shape.values()));
    for (float& value : tensor.values) value = static_cast<float>(normal(random));
    tensors.emplace(expected.name, std::move(tensor));
  }
  return tensors;
}

inline Tower tower_of(const VisionConfig& config, const StoredTensors& tensors,
                      WeightFormat format = WeightFormat::kF32) {
  return *Tower::build(config, source_of(tensors, format));
}

inline Tower random_tower(const TowerSize& size, uint32_t seed = 1) {
  const VisionConfig config = config_of(size);
  return tower_of(config, random_tensors(config, seed));
}

inline std::vector<PatchPlace> places_of(const std::vector<Cell>& cells, Size canvas) {
  std::vector<PatchPlace> places;
  for (const Cell& cell : cells)
    for (int i = 0; i < kPatchesPerCell; ++i)
      places.push_back({place_at(2 * cell.row + i / 2, cell.level, canvas.height_px / kPatchPx),
                        place_at(2 * cell.col + i % 2, cell.level, canvas.width_px / kPatchPx),
                        cell.level});
  return places;
}

inline Patches random_patches(const std::vector<Cell>& cells, Size canvas, uint32_t seed = 2) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Patches patches;
  patches.count = static_cast<int>(cells.size()) * kPatchesPerCell;
  patches.places = places_of(cells, canvas);
  patches.f32 = Buffer<float>(static_cast<size_t>(patches.count) * kPatchValues);
  for (float& value : patches.f32) value = uniform(random);
  return patches;
}

// Some of the cells, in the order given.
inline Patches take_cells(const Patches& patches, const std::vector<int>& cells) {
  constexpr size_t kCellValues = size_t{kPatchesPerCell} * kPatchValues;
  Patches taken;
  taken.count = static_cast<int>(cells.size()) * kPatchesPerCell;
  taken.f32 = Buffer<float>(cells.size() * kCellValues);
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto cell = static_cast<size_t>(cells[i]);
    std::copy_n(patches.f32.begin() + cell * kCellValues, kCellValues,
                taken.f32.begin() + i * kCellValues);
    for (size_t p = 0; p < kPatchesPerCell; ++p)
      taken.places.push_back(patches.places[cell * kPatchesPerCell + p]);
  }
  return taken;
}

inline std::vector<int> range(int begin, int end) {
  std::vector<int> all;
  for (int i = begin; i < end; ++i) all.push_back(i);
  return all;
}

inline std::vector<Cell> cover(Size canvas, int level) {
  const Grid grid = grid_at(canvas, level);
  std::vector<Cell> cells;
  for (int row = 0; row < grid.rows; ++row)
    for (int col = 0; col < grid.cols; ++col) cells.push_back({level, row, col});
  return cells;
}

// All that came out, one after the other: features, then each deepstack tap.
inline std::vector<std::vector<float>> parts_of(const VisualTokens& tokens) {
  std::vector<std::vector<float>> parts;
  parts.emplace_back(tokens.features.begin(), tokens.features.end());
  for (const Buffer<float>& part : tokens.deepstack) parts.emplace_back(part.begin(), part.end());
  return parts;
}

// The largest difference, relative to the largest value.
template <class A, class B>
double relative_difference(const A& values, const B& expected, size_t count) {
  double most = 0;
  double far = 0;
  for (size_t i = 0; i < count; ++i) {
    most = std::max(most, std::abs(static_cast<double>(expected[i])));
    const double off = std::abs(static_cast<double>(values[i]) - static_cast<double>(expected[i]));
    far = off <= far ? far : off;  // a NaN stays
  }
  return far / most;
}

}  // namespace fovea::test
