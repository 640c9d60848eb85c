// SPDX-License-Identifier: Apache-2.0
// One request, timed stage by stage; and what the machine could do at best.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/profile.h"
#include "engine/model.h"
#include "fovea/fovea.h"
#include "profile/stages.h"

namespace fovea::app {

struct RequestRun {
  Answer answer;
  PerStage<double> ms{};
  double whole_ms = 0;        // from the bytes of the file to the last token
  double first_token_ms = 0;  // ... to the first
};

// Asks one question about one picture, each time in a session of its own.
class Requests {
 public:
  Requests(std::shared_ptr<const Model> model, std::vector<uint8_t> file, std::string question,
           AskOptions options, int64_t max_pixels)
      : model_(std::move(model)),
        file_(std::move(file)),
        question_(std::move(question)),
        options_(std::move(options)),
        max_pixels_(max_pixels) {}

  // As any program would ask: on a device, stages are enqueued and their times are the host's.
  Result<RequestRun> run() const;
  // Each stage waits for its work, so that its time is its own; the whole takes longer.
  Result<RequestRun> run_by_stage() const;
  // The same for a profiler of kernels, which sees where the stages end.
  Status run_recorded() const;

  // As many times as it takes for nothing to be done for the first time; gives the first run.
  Result<RequestRun> warm_up() const;

  const Model& model() const { return *model_; }
  int64_t file_bytes() const { return static_cast<int64_t>(file_.size()); }

 private:
  std::shared_ptr<const Model> model_;
  std::vector<uint8_t> file_;
  std::string question_;
  AskOptions options_;
  int64_t max_pixels_ = 0;
};

// The run whose whole time is the middle one, so that its stages still add up.
RequestRun median_run(std::vector<RequestRun> runs);

struct Ceilings {
  DeviceCeilings host;
  DeviceCeilings device;  // the host's where the CPU does all
};
Result<Ceilings> measure_ceilings(const Model& model);

}  // namespace fovea::app
