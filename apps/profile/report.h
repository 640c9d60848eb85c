// SPDX-License-Identifier: Apache-2.0
// What `fovea profile` found, for a person and for a program.
#pragma once

#include <optional>
#include <string>

#include "profile/count.h"
#include "profile/counters.h"
#include "profile/measure.h"

namespace fovea::app {

struct Profile {
  std::string device;  // what it is
  std::string model;
  std::string weights;
  int runs = 1;
  RequestRun warm_up;   // the first request of all
  RequestRun whole;     // as any program would ask
  RequestRun by_stage;  // each stage by itself
  Ceilings ceilings;
  RequestShape request;
  PerStage<Work> work;
  RequestShape dense_request;
  PerStage<Work> dense_work;
  Work token_work;            // the last token of the answer
  std::string counters_note;  // why there are none
  std::optional<RequestCounters> counters;
  std::optional<RequestCounters> dense_counters;

  double limit_of(Stage stage) const {
    return limit_ms(work[static_cast<size_t>(stage)],
                    is_of_host(stage) ? ceilings.host : ceilings.device);
  }
};

std::string profile_json(const Profile& profile);
// The stages and times, before kernels are counted, which takes minutes; then the counts.
void print_measured(const Profile& profile);
void print_counted(const Profile& profile);

}  // namespace fovea::app
