// SPDX-License-Identifier: Apache-2.0
// BLIP-2's Q-Former, with the projection to the language model behind it.
#pragma once

#include <optional>
#include <vector>

#include "resample/parts.h"
#include "weights/resampler_config.h"

namespace fovea {

class QFormer {
 public:
  QFormer(const QFormerConfig& config, WeightReader& reader);

  Buffer<float> run(Threads& threads, StateRows states, const ResampleOptions& options) const;

  const QFormerConfig& config() const { return config_; }
  int tokens() const { return config_.queries; }
  int token_size() const { return config_.token_size; }
  size_t bytes() const;

 private:
  struct Attention {
    CrossLinear query;
    CrossLinear key;
    CrossLinear value;
    CrossLinear dense;
    CrossNorm norm;

    size_t bytes() const;
  };
  struct Layer {
    Attention self;
    std::optional<Attention> cross;
    CrossLinear fc1;
    CrossLinear fc2;
    CrossNorm norm;

    size_t bytes() const;
  };
  struct Work;

  static Attention read_attention(WeightReader& reader, const std::string& name);
  void attend(Threads& threads, const Attention& attention, StateRows to, int64_t to_width,
              Work& work) const;
  void add_mlp(Threads& threads, const Layer& layer, Work& work) const;
  void norm(Threads& threads, const CrossNorm& norm, const float* x, float* y) const;

  QFormerConfig config_;
  Buffer<float> queries_;  // [queries][hidden_size]
  CrossNorm first_norm_;
  std::vector<Layer> layers_;
  CrossLinear projection_;
};

}  // namespace fovea
