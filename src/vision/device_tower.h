// SPDX-License-Identifier: Apache-2.0
// The tower on a device: what a run-time library makes for Tower.
#pragma once

#include <memory>

#include "device/accelerator.h"
#include "vision/vision.h"

namespace fovea {

class DeviceTower {
 public:
  DeviceTower() = default;
  DeviceTower(const DeviceTower&) = delete;
  DeviceTower& operator=(const DeviceTower&) = delete;
  virtual ~DeviceTower() = default;

  // As Tower::encode, of one patch or more. The work is enqueued: the tokens may be given to the
  // device's decoder before they are there. `memory.levels` are the patches that
  // `memory.on_device` holds; they are the caller's to add. EncodeOptions::keep_going is asked
  // once, before.
  virtual Result<VisualTokens> encode(const Patches& patches, Size canvas, TowerMemory& memory,
                                      const EncodeOptions& options) = 0;
  // The tokens as Tower gives them, for tests and traces.
  virtual Result<VisualTokens> download(const VisualTokens& tokens) = 0;
  virtual size_t bytes() const = 0;  // of its weights
};

// What each run-time library exports for it.
inline constexpr const char* kMakeTowerSymbol = "fovea_make_tower";
using MakeTower = void (*)(const std::shared_ptr<Accelerator>& device, const VisionConfig& config,
                           const TowerWeights& weights,
                           Result<std::shared_ptr<DeviceTower>>& result);

}  // namespace fovea
