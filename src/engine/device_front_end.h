// SPDX-License-Identifier: Apache-2.0
// The front end on a device: what a run-time library makes, so that pixels go there once and the
// tower finds its patches there.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "device/accelerator.h"
#include "gaze/gaze.h"
#include "relevance/relevance.h"
#include "vision/device_tower.h"

namespace fovea {

// What a plan is made for, all of it checked.
struct PlanRequest {
  std::string maker;
  const Map* coupling = nullptr;  // null where no question was asked
  RelevanceParams relevance;
  std::vector<Point> fixations;  // canvas pixels
  int budget_tokens = 0;
  GazeParams gaze;
};

struct PlanAnswer {
  Relevance relevance;
  std::vector<Cell> cells;       // in the order of a plan
  std::vector<Point> fixations;  // the given ones, or those the maker took
};

// What no question changes.
struct PictureMeasures {
  Relevance relevance;  // information and salience
  Detail detail;
};

class DeviceFrontEnd {
 public:
  DeviceFrontEnd() = default;
  DeviceFrontEnd(const DeviceFrontEnd&) = delete;
  DeviceFrontEnd& operator=(const DeviceFrontEnd&) = delete;
  virtual ~DeviceFrontEnd() = default;

  // Uploads a canvas, builds its pyramid and measures it; enqueued, each a stage.
  virtual Result<std::shared_ptr<OnDevice>> prepare(const Image& canvas, const CopyBytes& copy,
                                                    Stopwatch& watch) = 0;
  // The measures, for makers and looks that the host has a hand in.
  virtual Result<PictureMeasures> measures(OnDevice& prepared) = 0;
  // Relevance and plan, made on the device.
  virtual Result<PlanAnswer> choose(OnDevice& prepared, const PlanRequest& request) = 0;
  // The patches of some cells, done when it returns: how many bytes they have.
  virtual Result<int64_t> sample(OnDevice& prepared, std::span<const Cell> cells) = 0;
  // The tokens of some cells, whose patches never leave the device. As DeviceTower::encode; the
  // stage of the patches ends within.
  virtual Result<VisualTokens> encode(OnDevice& prepared, std::span<const Cell> cells,
                                      TowerMemory& memory, const EncodeOptions& options,
                                      Stopwatch& watch) = 0;
};

// What each run-time library exports for it.
inline constexpr const char* kMakeFrontEndSymbol = "fovea_make_front_end";
using MakeFrontEnd = void (*)(const std::shared_ptr<Accelerator>& device,
                              const std::shared_ptr<DeviceTower>& tower,
                              Result<std::shared_ptr<DeviceFrontEnd>>& result);

}  // namespace fovea
