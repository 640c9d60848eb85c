// SPDX-License-Identifier: Apache-2.0
// The gaze head of a model of ours: what has the question to do with each place of the glance?
//
//   n = rms_norm(h)                  h: the hidden state after the first `layer` layers
//   q_i = W_q n_i                    of every token i of the question
//   k_(j,s) = (W_k n_j)[s]           of every token j of the glance and each place s of its cell
//   logit(j,s) = log sum over i of exp(q_i . k_(j,s) / sqrt(size))
//   share = softmax of the logits over all places that lie on the canvas
#pragma once

#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "fovea/result.h"
#include "fovea/words.h"
#include "ops/matrix.h"
#include "weights/config.h"
#include "weights/tensor_source.h"

namespace fovea {

class GazeHead {
 public:
  // The model must have one (GazeConfig::size). Its matrices are kept as f32 whatever the format of
  // the others is: they are small, and cells are chosen by small differences.
  static Result<GazeHead> build(const ModelConfig& config, const TensorSource& source);

  const GazeConfig& config() const { return config_; }
  size_t bytes() const;

  // q of each row: [rows][size]; hidden: [rows][hidden_size].
  Buffer<float> queries(Threads& threads, const float* hidden, int64_t rows) const;
  // k of each row: [rows][grid * grid][size].
  Buffer<float> keys(Threads& threads, const float* hidden, int64_t rows) const;

 private:
  Buffer<float> project(Threads& threads, const Matrix& matrix, const float* hidden,
                        int64_t rows) const;

  GazeConfig config_;
  int64_t hidden_size_ = 0;
  float eps_ = 0;
  Buffer<float> norm_;  // [hidden_size]
  Matrix query_;        // [size][hidden_size]
  Matrix key_;          // [grid * grid * size][hidden_size]
};

// The places on the canvas, row-major over the whole of it, and what each has of the whole. They
// are cells of a level, or equal parts of cells of level 0.
struct GazeShares {
  Grid grid;
  std::vector<float> share;  // adds up to 1
};

// Of a glance that covers the canvas at `level`. queries: [any][size], at least one; keys:
// [cells][grid * grid][size].
GazeShares gaze_shares(Threads& threads, const GazeConfig& config, std::span<const float> queries,
                       std::span<const float> keys, Size canvas, int level);
GazeShares gaze_shares_reference(const GazeConfig& config, std::span<const float> queries,
                                 std::span<const float> keys, Size canvas, int level);

// r / (1 + r) with r = share x places: 1/2 for what an even gaze would give, near 1 for a peak.
// Shares that are no numbers, of weights that overflow, are an error.
Result<Map> gaze_map(const GazeShares& shares);

}  // namespace fovea
