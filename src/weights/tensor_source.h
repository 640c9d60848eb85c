// SPDX-License-Identifier: Apache-2.0
// The tensors of one part of a model, as the rooms that build models ask for them.
//
// Rooms do not call each other: the engine makes a Loader and hands the tower and the language
// model a TensorSource. A test can fill one with tensors of its own.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/buffer.h"
#include "fovea/result.h"
#include "ops/matrix.h"
#include "weights/loader.h"
#include "weights/resampler_checkpoint.h"

namespace fovea {

// Names are those of model_tensors.h: "blocks.0.attn.qkv.weight",
// "layers.0.self_attn.q_proj.weight", "lm_head.weight" (only where it is not tied); with the extra
// tensors of a model of ours, "level_embedding" in the tower's part, "gaze.query.weight" in the
// language model's. Each tensor is asked for once.
struct TensorSource {
  // [shape[0]][all other dimensions], in the format that the model is kept in.
  std::function<Result<Matrix>(std::string_view name)> matrix;
  // All values as f32: norms, biases, tables of positions.
  std::function<Result<Buffer<float>>(std::string_view name)> values;
};

// Matrices are kept in `format`; without one as the files have them (f16 becomes f32). What the
// files have in that format already is used where it lies, so checkpoint, loader and what is made
// from the source share their lifetime.
TensorSource vision_source(const Checkpoint& checkpoint, Loader& loader,
                           std::optional<WeightFormat> format);
TensorSource text_source(const Checkpoint& checkpoint, Loader& loader,
                         std::optional<WeightFormat> format);

// The same for a resampler, whose matrices are copied: what is made from the source needs neither
// checkpoint nor loader afterwards.
TensorSource resampler_source(const ResamplerCheckpoint& checkpoint, Loader& loader,
                              std::optional<WeightFormat> format);

// The format of the embedding, the largest matrix, when none is asked for.
WeightFormat stored_format(const Checkpoint& checkpoint);

}  // namespace fovea
