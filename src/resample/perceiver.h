// SPDX-License-Identifier: Apache-2.0
// Idefics2's Perceiver resampler, with the projection of the states before it.
#pragma once

#include <vector>

#include "resample/parts.h"
#include "weights/resampler_config.h"

namespace fovea {

class Perceiver {
 public:
  Perceiver(const PerceiverConfig& config, WeightReader& reader);

  Buffer<float> run(Threads& threads, StateRows states, const ResampleOptions& options) const;

  const PerceiverConfig& config() const { return config_; }
  int tokens() const { return config_.latents; }
  int token_size() const { return config_.hidden_size; }
  size_t bytes() const;

 private:
  struct GatedMlp {
    CrossLinear gate;
    CrossLinear up;
    CrossLinear down;

    size_t bytes() const { return gate.bytes() + up.bytes() + down.bytes(); }
  };
  struct Layer {
    CrossNorm latents_norm;
    CrossNorm context_norm;
    CrossLinear query;
    CrossLinear key;
    CrossLinear value;
    CrossLinear out;
    CrossNorm norm;
    GatedMlp mlp;

    size_t bytes() const;
  };
  struct Work;

  static GatedMlp read_mlp(WeightReader& reader, const std::string& name);
  static void apply_mlp(Threads& threads, const GatedMlp& mlp, StateRows x, Work& work, float* y,
                        bool add);
  void attend(Threads& threads, const Layer& layer, StateRows context, Work& work) const;
  void norm(Threads& threads, const CrossNorm& norm, StateRows x, float* y) const;

  PerceiverConfig config_;
  GatedMlp projection_;
  Buffer<float> latents_;  // [latents][hidden_size]
  std::vector<Layer> layers_;
  CrossNorm last_norm_;
};

}  // namespace fovea
