// SPDX-License-Identifier: Apache-2.0
// The tower of a device: the CPU's is tower_cpu.cc; a run-time library makes another.
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

  // As Tower::encode, of one patch or more. Work that is enqueued gives tokens that the device's
  // decoder may be given before they are there. On the CPU the threads do it.
  virtual Result<VisualTokens> encode(Threads& threads, const Patches& patches, Size canvas,
                                      TowerMemory& memory, const EncodeOptions& options) = 0;
  // The tokens in the host's memory, for tests and traces.
  virtual Result<VisualTokens> download(VisualTokens tokens) = 0;
  virtual size_t bytes() const = 0;  // of its weights
  // Whether its patches can attend to each other by this kind.
  virtual bool has_kind(AttentionKind kind) const { return kind == AttentionKind::kDense; }
};

// What each run-time library exports for it. The weights may be taken.
inline constexpr const char* kMakeTowerSymbol = "fovea_make_tower";
using MakeTower = void (*)(const std::shared_ptr<Accelerator>& device, const VisionConfig& config,
                           TowerWeights& weights, Result<std::shared_ptr<DeviceTower>>& result);

// The CPU's.
void make_cpu_tower(const std::shared_ptr<Accelerator>& device, const VisionConfig& config,
                    TowerWeights& weights, Result<std::shared_ptr<DeviceTower>>& result);

}  // namespace fovea
