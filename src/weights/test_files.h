// SPDX-License-Identifier: Apache-2.0
// What the tests of this room share: a folder for one test, safetensors files and tiny models.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "weights/config.h"
#include "weights/model_tensors.h"
#include "weights/tensor.h"

namespace fovea::test {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = fs::temp_directory_path() /
            ("fovea_weights_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path() const { return path_.string(); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path(name);
  }

 private:
  fs::path path_;
};

// The header's length, the header, the data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
  return bytes + header + data;
}

struct TestTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::string data;
};

inline std::string safetensors_bytes(const std::vector<TestTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const TestTensor& tensor : tensors) {
    const size_t end = data.size() + tensor.data.size();
    header += ",\"" + tensor.name + R"(":{"dtype":")" + std::string(dtype_name(tensor.dtype)) +
              R"(","shape":)" + tensor.shape.text() + R"(,"data_offsets":[)" +
              std::to_string(data.size()) + "," + std::to_string(end) + "]}";
    data += tensor.data;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return safetensors_bytes(header, data);
}

inline std::string f32_bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Finite values of any 16- or 32-bit float type: small positive bit patterns.
inline std::string random_bytes(DType dtype, int64_t values, uint32_t seed) {
  std::mt19937 random(seed);
  const int value_bytes = dtype_bits(dtype) / 8;
  std::string bytes(static_cast<size_t>(values * value_bytes), '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(
        i % value_bytes == size_t(value_bytes) - 1 ? 0x3C | (random() & 0x80) : random() & 0x7F);
  return bytes;
}

// A model of two blocks and two layers, a few kilobytes in all.
inline std::string tiny_config(bool tied = true) {
  return R"({"architectures":["Qwen3VLForConditionalGeneration"],"model_type":"qwen3_vl",
"image_token_id":30,"vision_start_token_id":31,"vision_end_token_id":32,
"tie_word_embeddings":)" +
         std::string(tied ? "true" : "false") + R"(,
"text_config":{"hidden_size":16,"intermediate_size":24,"num_hidden_layers":2,"num_attention_heads":4,
"num_key_value_heads":2,"head_dim":8,"vocab_size":40,"rms_norm_eps":1e-6,"rope_theta":5000000,
"rope_scaling":{"mrope_interleaved":true,"mrope_section":[2,1,1],"rope_type":"default"},
"eos_token_id":35},
"vision_config":{"depth":2,"hidden_size":8,"intermediate_size":12,"num_heads":2,"out_hidden_size":16,
"num_position_embeddings":9,"deepstack_visual_indexes":[0]}})";
}

inline std::vector<TestTensor> tiny_tensors(
    const ModelConfig& config, DType dtype, const std::string& vision_prefix = "model.visual.",
    const std::string& text_prefix = "model.language_model.") {
  std::vector<TestTensor> tensors;
  const auto add = [&](const std::string& name, const Shape& shape) {
    const auto seed = static_cast<uint32_t>(tensors.size());
    tensors.push_back({name, dtype, shape, random_bytes(dtype, shape.values(), seed)});
  };
  for (const auto& tensor : vision_tensors(config.vision))
    add(vision_prefix + tensor.name, tensor.shape);
  for (const auto& tensor : text_tensors(config.text)) add(text_prefix + tensor.name, tensor.shape);
  if (!config.tie_word_embeddings) add("lm_head.weight", head_tensor(config.text).shape);
  return tensors;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fovea::test
