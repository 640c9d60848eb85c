// SPDX-License-Identifier: Apache-2.0
// weights: the folder of a BLIP-2 or Idefics2 model -> the settings and tensors of its resampler.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "weights/model_tensors.h"
#include "weights/resampler_config.h"
#include "weights/safetensors.h"

namespace fovea {

// "query_tokens", "qformer.layernorm.weight", ..., "language_projection.weight"; or
// "modality_projection.gate_proj.weight", ..., "perceiver_resampler.norm.weight".
std::vector<ExpectedTensor> resampler_tensors(const ResamplerConfig& config);

// As Checkpoint: from open() on every tensor is known to be there, in its shape, as F32, F16 or
// BF16. The vision and language models need not be in the folder.
class ResamplerCheckpoint {
 public:
  static Result<ResamplerCheckpoint> open(const std::string& folder);

  const ResamplerConfig& config() const { return config_; }
  const TensorSet& tensors() const { return tensors_; }
  TensorView tensor(std::string_view name) const;  // one of resampler_tensors()
  int64_t source_bytes() const { return source_bytes_; }

 private:
  ResamplerCheckpoint(const ResamplerConfig& config, TensorSet tensors)
      : config_(config), tensors_(std::move(tensors)) {}
  Status find_tensors();
  Status find_token_size(const std::string& prefix);

  ResamplerConfig config_;
  TensorSet tensors_;
  std::map<std::string, TensorView, std::less<>> found_;
  int64_t source_bytes_ = 0;
};

}  // namespace fovea
