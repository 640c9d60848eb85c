// SPDX-License-Identifier: Apache-2.0
// What tools/golden/language.py wrote: small random models, prompts with pictures, and what
// transformers computes for them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/words.h"
#include "places.h"
#include "vision/vision.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

namespace fovea {

inline constexpr int kGoldenModels = 10;

struct GoldenImage {
  std::string path;
  size_t at = 0;  // its first token in the prompt
  Grid grid;      // of level-0 cells
};

class GoldenModel {
 public:
  explicit GoldenModel(int index)
      : folder_(source_dir() + "/tests/fixtures/models/0" + std::to_string(index)),
        checkpoint_(opened(Checkpoint::open(folder_))),
        values_(opened(SafetensorsFile::open(folder_ + "/golden.safetensors"))) {
    std::ifstream file(folder_ + "/golden.json");
    facts_ = nlohmann::json::parse(file);
    for (const auto& image : facts_.at("images"))
      images_.push_back({folder_ + "/" + image.at("file").get<std::string>(),
                         image.at("at").get<size_t>(),
                         {image.at("rows").get<int>(), image.at("cols").get<int>()}});
  }

  const std::string& folder() const { return folder_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const TextConfig& text() const { return checkpoint_.config().text; }
  const std::vector<GoldenImage>& images() const { return images_; }
  const nlohmann::json& facts() const { return facts_; }

  bool has(const std::string& name) const { return values_.find(name).has_value(); }
  std::vector<float> floats(const std::string& name) const {
    return read<float>(name, DType::kF32);
  }
  std::vector<int> ints(const std::string& name) const { return read<int>(name, DType::kI32); }

  // What transformers' tower gives for an image.
  VisualTokens visual(size_t image) const {
    VisualTokens tokens;
    tokens.count = static_cast<int>(images_[image].grid.cells());
    tokens.width = text().hidden_size;
    int64_t before = 0;
    for (size_t i = 0; i < image; ++i) before += images_[i].grid.cells();
    const auto part = [&](const std::string& name) {
      const std::vector<float> all = floats(name);
      Buffer<float> own(static_cast<size_t>(tokens.count) * tokens.width);
      std::copy_n(all.begin() + before * tokens.width, own.size(), own.begin());
      return own;
    };
    tokens.features = part("visual");
    for (int tap = 0; has("deepstack." + std::to_string(tap)); ++tap)
      tokens.deepstack.push_back(part("deepstack." + std::to_string(tap)));
    return tokens;
  }

 private:
  template <class T>
  static T opened(Result<T> result) {
    if (!result) ADD_FAILURE() << result.error().message;
    return *std::move(result);
  }
  template <class T>
  std::vector<T> read(const std::string& name, DType dtype) const {
    const auto tensor = values_.find(name);
    if (!tensor || tensor->dtype != dtype) {
      ADD_FAILURE() << folder_ << " has no golden " << name;
      return {};
    }
    std::vector<T> values(static_cast<size_t>(tensor->values()));
    std::memcpy(values.data(), tensor->data, tensor->bytes);
    return values;
  }

  std::string folder_;
  Checkpoint checkpoint_;
  SafetensorsFile values_;
  nlohmann::json facts_;
  std::vector<GoldenImage> images_;
};

}  // namespace fovea
