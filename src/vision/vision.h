// SPDX-License-Identifier: Apache-2.0
// vision: Patches -> visual tokens, by the Qwen3-VL tower.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "device/accelerator.h"
#include "fovea/result.h"
#include "fovea/words.h"
#include "memory/key_values.h"
#include "patches/patches.h"
#include "vision/layers.h"
#include "weights/config.h"
#include "weights/tensor_source.h"

namespace fovea {

// What the language model gets for each cell, in the order of the patches' cells.
struct VisualTokens {
  int count = 0;
  int width = 0;                         // values of one token
  Buffer<float> features;                // [count][width]
  std::vector<Buffer<float>> deepstack;  // for each tap: [count][width]
  // All of them, where a device made them; the others are empty then.
  std::shared_ptr<const OnDevice> on_device;

  size_t bytes() const;
};

// What the tower keeps of an image: the keys and values of every block, of all patches encoded so
// far. A look attends to them without the glance being encoded again.
struct TowerMemory {
  std::shared_ptr<Reservation> pages;   // what blocks draw on; null: made without a bound
  std::vector<KeyValues> blocks;        // one a block; empty before the first call
  std::vector<int> levels;              // of the patches encoded so far, for the size bias
  std::shared_ptr<OnDevice> on_device;  // in place of blocks, where a device encodes

  void open(const VisionConfig& config);  // makes the blocks, where there are none yet
  int64_t patches() const { return static_cast<int64_t>(levels.size()); }
  size_t bytes() const;
  void truncate(int64_t patches);  // forgets all but the first
};

struct EncodeOptions {
  // Whether the patches are added to the memory. If not, the keys and values of a block are dropped
  // after it: an image that is looked at once needs those of one block instead of all.
  bool keep = true;
  // How the patches attend to each other, in each block, where nothing was in the memory: all else
  // is dense. Of kinds that Tower::has_kinds() alone.
  AttentionSchedule attention;
  bool size_bias = false;  // attention counts a patch of level l 4^l times: + log(4^l) on its key
  // For tests and traces: sees the output of each block, [patches][hidden_size].
  std::function<void(int block, const float* hidden)> on_block;
  // Asked before each block, and on the CPU about every 100 ms inside one (StopLoops); on a GPU
  // once, before. False stops the work: the result is empty, the memory as it was.
  std::function<bool()> keep_going;
};

class DeviceTower;

class Tower {
 public:
  // On a GPU, weights are kept as bf16, which the source must give.
  static Result<Tower> build(const VisionConfig& config, const TensorSource& source,
                             const std::shared_ptr<Accelerator>& device = open_cpu());

  // Encodes f32 patches (on a GPU bf16 too) of one image, whose canvas their places refer to.
  // They attend to what is in `memory` and to each other, and are added to it. Tokens come in the
  // order of the patches.
  Result<VisualTokens> encode(Threads& threads, const Patches& patches, Size canvas,
                              TowerMemory& memory, const EncodeOptions& options = {}) const;

  // The tokens in the host's memory, for tests and traces.
  Result<VisualTokens> download(VisualTokens tokens) const;

  // Whether its device knows all these kinds.
  bool has_kinds(const AttentionSchedule& attention) const;
  const std::shared_ptr<DeviceTower>& on_device() const { return device_; }
  const VisionConfig& config() const { return config_; }
  size_t bytes() const;  // of its weights

 private:
  VisionConfig config_;
  std::shared_ptr<DeviceTower> device_;
};

// What encode() works in for so many patches at most, besides weights, patches and result: the keys
// and values of one block among it, those of the others being memory that the caller keeps. Other
// attention than dense takes the more, the more the patches are scattered; here they all are.
size_t tower_work_bytes(const VisionConfig& config, int64_t patches,
                        const AttentionSchedule& attention = {});

}  // namespace fovea
