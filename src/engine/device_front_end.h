// SPDX-License-Identifier: Apache-2.0
// The front end of a device: pixels go there once, and the tower finds its patches there. The CPU's
// is front_end_cpu.cc; a run-time library makes another.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/stopwatch.h"
#include "base/threads.h"
#include "device/accelerator.h"
#include "gaze/gaze.h"
#include "pyramid/pyramid.h"
#include "relevance/relevance.h"
#include "vision/device_tower.h"

namespace fovea {

// A canvas in the host's memory, and its pyramid once that is wanted: by the CPU's front end, or to
// be drawn for a person.
class HostCanvas {
 public:
  explicit HostCanvas(Image& pixels) : size_(pixels.size), pixels_(std::move(pixels)) {}

  Size size() const { return size_; }
  const Image& pixels() const { return pixels_; }  // until there is a pyramid, which takes them
  const Pyramid& pyramid(Threads& threads);
  Image take() &&;  // the pixels

 private:
  Size size_;
  Image pixels_;
  std::optional<Pyramid> pyramid_;
};

// What a plan is made for, all of it checked.
struct PlanRequest {
  MakerKind maker = MakerKind::kQuadtree;
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

  // Takes a canvas to the device, builds its pyramid and measures it; each a stage.
  virtual Result<std::shared_ptr<OnDevice>> prepare(const std::shared_ptr<HostCanvas>& canvas,
                                                    const CopyBytes& copy, Stopwatch& watch) = 0;
  // The measures, for makers and looks that the host has a hand in.
  virtual Result<PictureMeasures> measures(OnDevice& prepared) = 0;
  // Relevance and plan.
  virtual Result<PlanAnswer> choose(OnDevice& prepared, const PlanRequest& request,
                                    Stopwatch& watch) = 0;
  // The patches of some cells, done when it returns: how many bytes they have.
  virtual Result<int64_t> sample(OnDevice& prepared, std::span<const Cell> cells) = 0;
  // The tokens of some cells, whose patches never leave the device. As DeviceTower::encode; the
  // stage of the patches ends within. Where `crop` is given, the cells are all those of it, at
  // level 0, as an image of its own. The work may be put off, so that several images can share a
  // pass: until start(), or until somebody needs the tokens, who is told then where it failed.
  virtual Result<VisualTokens> encode(OnDevice& prepared, std::span<const Cell> cells,
                                      const CellBlock* crop, TowerMemory& memory,
                                      const EncodeOptions& options, Stopwatch& watch) = 0;
  // Enqueues what was put off.
  virtual void start() = 0;
};

// What each run-time library exports for it. The tower is null where nothing is encoded; the
// threads are the host's.
inline constexpr const char* kMakeFrontEndSymbol = "fovea_make_front_end";
using MakeFrontEnd = void (*)(const std::shared_ptr<Accelerator>& device,
                              const std::shared_ptr<DeviceTower>& tower, Threads& threads,
                              Result<std::shared_ptr<DeviceFrontEnd>>& result);

// The CPU's.
void make_cpu_front_end(const std::shared_ptr<Accelerator>& device,
                        const std::shared_ptr<DeviceTower>& tower, Threads& threads,
                        Result<std::shared_ptr<DeviceFrontEnd>>& result);

}  // namespace fovea
