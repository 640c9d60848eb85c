// SPDX-License-Identifier: Apache-2.0
// The front end in two steps: what an image is prepared to once, and what is chosen of it for each
// question.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "base/threads.h"
#include "engine/device_front_end.h"
#include "fovea/fovea.h"
#include "pyramid/canvas.h"
#include "pyramid/pyramid.h"
#include "relevance/relevance.h"

namespace fovea {

// An image on its canvas. Where a device has the pyramid, the CPU makes one of its own when a
// person wants to see it.
class Prepared {
 public:
  Prepared(Size image_size, Pyramid pyramid, Detail its_detail);
  Prepared(Size image_size, Image canvas_pixels, std::shared_ptr<OnDevice> there);

  Size canvas() const { return canvas_; }
  const Pyramid& pyramid(Threads& threads) const;

  Size image;
  Detail detail;                        // empty until a device was asked for it
  std::shared_ptr<OnDevice> on_device;  // null: the CPU

 private:
  Size canvas_;
  mutable Image pixels_;  // until the pyramid has them
  mutable std::optional<Pyramid> pyramid_;
};

// Fits the image to its canvas and builds the pyramid, on the device where one is given.
Result<Prepared> prepare(Threads& threads, Image image, const CanvasLimits& limits,
                         Stopwatch& watch, DeviceFrontEnd* device = nullptr);

// The device's own; the tower is null where nothing is encoded.
Result<std::shared_ptr<DeviceFrontEnd>> front_end_on(const std::shared_ptr<Accelerator>& device,
                                                     const std::shared_ptr<DeviceTower>& tower);

struct Choice {
  Relevance relevance;
  Plan plan;
  std::vector<Point> fixations;  // canvas pixels: the given ones, or those the maker took
  bool scan_path = false;        // the fixations are where looks went, one after the other
};

// Measures relevance and makes the plan. Fixations steer every maker: where no coupling is given,
// nearness to them stands for it.
Result<Choice> choose(Threads& threads, const Prepared& prepared, const SeeOptions& options,
                      Stopwatch& watch, DeviceFrontEnd* device = nullptr);

// What a person may look at, out of both; the maps are moved out of `choice`. `patches` and the
// stages in `watch` go into the caption.
Sight make_sight(Threads& threads, const Prepared& prepared, Choice& choice,
                 const std::string& name, const SeeOptions& options, int64_t patch_bytes,
                 Stopwatch& watch);

}  // namespace fovea
