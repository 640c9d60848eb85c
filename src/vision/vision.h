// SPDX-License-Identifier: Apache-2.0
// vision: Patches -> visual tokens, by the Qwen3-VL tower.
#pragma once

#include <functional>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "fovea/result.h"
#include "fovea/words.h"
#include "ops/key_values.h"
#include "patches/patches.h"
#include "weights/config.h"
#include "weights/tensor_source.h"

namespace fovea {

// What the language model gets for each cell, in the order of the patches' cells.
struct VisualTokens {
  int count = 0;
  int width = 0;                         // values of one token
  Buffer<float> features;                // [count][width]
  std::vector<Buffer<float>> deepstack;  // for each tap: [count][width]
};

// What the tower keeps of an image: the keys and values of every block, of all patches encoded so
// far. A look attends to them without the glance being encoded again.
struct TowerMemory {
  std::vector<KeyValues> blocks;  // one a block; empty before the first call
  std::vector<int> levels;        // of the patches encoded so far, for the size bias

  int64_t patches() const { return static_cast<int64_t>(levels.size()); }
  size_t bytes() const;
  void truncate(int64_t patches);  // forgets all but the first
};

struct EncodeOptions {
  bool size_bias = false;  // attention counts a patch of level l 4^l times: + log(4^l) on its key
  // For tests and traces: sees the output of each block, [patches][hidden_size].
  std::function<void(int block, const float* hidden)> on_block;
  // Asked between blocks; false stops the work, and the result is empty.
  std::function<bool()> keep_going;
};

class Tower {
 public:
  static Result<Tower> build(const VisionConfig& config, const TensorSource& source);

  // Encodes f32 patches of one image, whose canvas their places refer to. They attend to what is in
  // `memory` and to each other, and are added to it.
  VisualTokens encode(Threads& threads, const Patches& patches, Size canvas, TowerMemory& memory,
                      const EncodeOptions& options = {}) const;

  const VisionConfig& config() const { return config_; }
  size_t bytes() const;  // of its weights

 private:
  VisionConfig config_;
};

}  // namespace fovea
