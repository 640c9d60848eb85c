// SPDX-License-Identifier: Apache-2.0
// weights: a model folder -> Checkpoint: its settings and every tensor of the model, checked.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "fovea/result.h"
#include "weights/config.h"
#include "weights/safetensors.h"
#include "weights/tensor.h"

namespace fovea {

// Opening reads settings and headers, not the weights: milliseconds for any size. From then on
// every tensor of the model is known to be there, in its shape, as F32, F16 or BF16. Whether its
// values are finite is seen when they are read (Loader).
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& folder);

  const ModelConfig& config() const { return config_; }
  const ProcessorConfig& processor() const { return processor_; }
  const TensorSet& tensors() const { return tensors_; }

  // By the names of model_tensors.h, which must be among them: vision("blocks.0.attn.qkv.weight"),
  // text("layers.0.self_attn.q_proj.weight").
  TensorView vision(std::string_view name) const;
  TensorView text(std::string_view name) const;
  // Of fovea.safetensors: extra("level_embedding"), extra("gaze.key.weight").
  TensorView extra(std::string_view name) const;
  bool has_extra(std::string_view name) const { return extra_.find(name) != extra_.end(); }
  // The output matrix; text("embed_tokens.weight") where it is tied.
  TensorView head() const { return head_; }
  bool head_is_tied() const { return head_.data == text("embed_tokens.weight").data; }

  int64_t source_bytes() const { return source_bytes_; }  // of the model's tensors in the files
  Status intact() const { return tensors_.intact(); }

 private:
  using Part = std::map<std::string, TensorView, std::less<>>;
  Checkpoint(ModelConfig config, ProcessorConfig processor, TensorSet tensors)
      : config_(std::move(config)), processor_(processor), tensors_(std::move(tensors)) {}
  Status find_tensors();
  Status find_extra();
  Status find_embedding_and_head(const std::string& embedding_name);

  ModelConfig config_;
  ProcessorConfig processor_;
  TensorSet tensors_;
  Part vision_;
  Part text_;
  Part extra_;
  TensorView head_;
  int64_t source_bytes_ = 0;
};

}  // namespace fovea
