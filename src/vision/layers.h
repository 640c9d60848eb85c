// SPDX-License-Identifier: Apache-2.0
// The tower's weights, and the memory its layers work in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "fovea/result.h"
#include "memory/key_values.h"
#include "ops/attention/sparse/schedule.h"
#include "ops/matrix.h"
#include "vision/positions.h"
#include "weights/config.h"
#include "weights/tensor_source.h"

namespace fovea {

// y = x W^T + b
struct TowerLinear {
  Matrix weight;       // [out][in]
  Buffer<float> bias;  // [out]

  size_t bytes() const { return weight.bytes() + bias.size() * sizeof(float); }
};

// y = (x - mean) / sqrt(variance + eps) * w + b
struct TowerNorm {
  Buffer<float> weight;  // [size]
  Buffer<float> bias;    // [size]

  int64_t size() const { return static_cast<int64_t>(weight.size()); }
  size_t bytes() const { return (weight.size() + bias.size()) * sizeof(float); }
};

struct TowerBlock {
  TowerNorm norm1;
  TowerLinear qkv;   // hidden -> queries, keys, values
  TowerLinear proj;  // hidden -> hidden
  TowerNorm norm2;
  TowerLinear fc1;  // hidden -> intermediate
  TowerLinear fc2;  // intermediate -> hidden

  size_t bytes() const {
    return norm1.bytes() + qkv.bytes() + proj.bytes() + norm2.bytes() + fc1.bytes() + fc2.bytes();
  }
};

// The size of its norm tells the two kinds apart: the last merger norms each patch (hidden_size),
// a deepstack merger the four patches of a cell together (merged_size).
struct TowerMerger {
  TowerNorm norm;
  TowerLinear fc1;  // merged -> merged
  TowerLinear fc2;  // merged -> out_hidden_size

  size_t bytes() const { return norm.bytes() + fc1.bytes() + fc2.bytes(); }
};

struct TowerWeights {
  TowerLinear patch_embed;  // patch values -> hidden
  Buffer<float> positions;  // [num_position_embeddings][hidden_size]
  Buffer<float> levels;     // [levels][hidden_size]: what tells a coarse patch from a fine one
  std::vector<TowerBlock> blocks;
  TowerMerger merger;
  std::vector<TowerMerger> deepstack;  // one a tap

  size_t bytes() const;
};

Result<TowerWeights> take_tower_weights(const VisionConfig& config, const TensorSource& source);

// What encoding needs besides weights, keys and values. Only the hidden state and the queries are
// held for all patches; the rest of a block is worked on in chunks of patches, so that the wide
// rows inside it never exist all at once.
struct TowerWork {
  static constexpr int64_t kMaxChunk = 1024;

  TowerWork(const VisionConfig& config, int64_t patch_count);

  int64_t patches = 0;
  int64_t chunk = 0;      // patches, whole cells
  Buffer<float> hidden;   // [patches][hidden_size]
  Buffer<float> queries;  // [patches][hidden_size]
  Buffer<float> narrow;   // [chunk][hidden_size]
  Buffer<float> wide;     // [chunk][the widest row of a block]
};

// What a block needs to know of its call.
struct BlockInput {
  const VisionConfig& config;
  const RotaryAngles& angles;
  const float* key_bias = nullptr;  // [keys], or null
  // How rows attend to each other in this block; where it is not dense, they are in the order of
  // `rows`.
  SparseSettings attention;
  const RowBlocks* rows = nullptr;
};

// work.hidden after the block; its keys and values are appended to kv.
void run_block(Threads& threads, const TowerBlock& block, const BlockInput& input, KeyValues& kv,
               TowerWork& work);

// The token of each cell of work.hidden: out[cells][out_hidden_size].
void run_merger(Threads& threads, const TowerMerger& merger, const VisionConfig& config,
                TowerWork& work, float* out);

}  // namespace fovea
