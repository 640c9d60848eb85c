// SPDX-License-Identifier: Apache-2.0
// resample: the states of a vision model -> a fixed number of visual tokens, by cross-attention.
//
// It stands behind a tower, in the place of its mergers: as many states as the picture has, of any
// width the checkpoint was trained for, become as many tokens as the checkpoint has queries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <variant>

#include "base/threads.h"
#include "fovea/result.h"
#include "resample/perceiver.h"
#include "resample/qformer.h"
#include "vision/vision.h"
#include "weights/resampler_config.h"
#include "weights/tensor_source.h"

namespace fovea {

class Resampler {
 public:
  static Result<Resampler> build(const ResamplerConfig& config, const TensorSource& source);

  // The tokens that the language model gets, of count states (1 or more) of state_size() values
  // each. The same bits for any number of threads.
  VisualTokens run(Threads& threads, const float* states, int64_t count,
                   const ResampleOptions& options = {}) const;

  int tokens() const;      // that come out
  int state_size() const;  // values of a state
  int token_size() const;  // values of a token
  size_t bytes() const;    // of its weights

 private:
  using Form = std::variant<QFormer, Perceiver>;
  explicit Resampler(Form form) : form_(std::move(form)) {}

  Form form_;
};

}  // namespace fovea
