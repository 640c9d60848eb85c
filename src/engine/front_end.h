// SPDX-License-Identifier: Apache-2.0
// The front end in two steps: what an image is prepared to once, and what is chosen of it for each
// question.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "base/threads.h"
#include "engine/device_front_end.h"
#include "engine/see_parts.h"
#include "fovea/fovea.h"
#include "pyramid/canvas.h"
#include "relevance/relevance.h"

namespace fovea {

// An image on its canvas: in the host's memory, and as its device has it.
struct Prepared {
  Size image;
  std::shared_ptr<HostCanvas> here;
  std::shared_ptr<OnDevice> on_device;

  Size canvas() const { return here->size(); }
  const Pyramid& pyramid(Threads& threads) const { return here->pyramid(threads); }
};

// The device's own, which refers to the threads; the tower is null where nothing is encoded.
Result<std::shared_ptr<DeviceFrontEnd>> front_end_on(const std::shared_ptr<Accelerator>& device,
                                                     const std::shared_ptr<DeviceTower>& tower,
                                                     Threads& threads);

// Fits the image to its canvas and has the device build the pyramid. Takes the image's memory; with
// `keep`, only where all goes well, which holds it a little longer.
Result<Prepared> prepare(Threads& threads, DeviceFrontEnd& device, Image& image,
                         const CanvasLimits& limits, Stopwatch& watch, bool keep = false);

struct Choice {
  Relevance relevance;
  Plan plan;
  std::vector<Point> fixations;  // canvas pixels: the given ones, or those the maker took
  bool scan_path = false;        // the fixations are where looks went, one after the other
};

// Measures relevance and makes the plan. Fixations steer every maker: where no coupling is given,
// nearness to them stands for it.
Result<Choice> choose(DeviceFrontEnd& device, const Prepared& prepared, const SeeSettings& settings,
                      Stopwatch& watch);

// What a person may look at, out of both; the maps are moved out of `choice`. `patches` and the
// stages in `watch` go into the caption.
Sight make_sight(Threads& threads, const Prepared& prepared, Choice& choice,
                 const std::string& name, const SeeOptions& options, int64_t patch_bytes,
                 Stopwatch& watch);

}  // namespace fovea
