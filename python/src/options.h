// SPDX-License-Identifier: Apache-2.0
// Keywords of the package as the engine's options. ../fovea/options.py has made plain values of
// what people may write, such as one fixation for a list of lists.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/fovea.h"
#include "lock.h"

namespace fovea::python {

struct AskKeywords {
  AskOptions options;
  int64_t max_pixels = 0;
  int priority = 0;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  bool logits = false;                 // keep what each token is drawn from
  std::shared_ptr<SharedObject> mask;  // (ids, count of tokens) -> bytes of bits, or None
};
AskKeywords ask_keywords(const nanobind::dict& keywords);

struct SeeKeywords {
  SeeOptions options;
  std::optional<GivenPlan> plan;
};
SeeKeywords see_keywords(const nanobind::dict& keywords);

// [(role, [a text or the number of an image, ...], tool_calls), ...]
std::vector<Message> messages_of(const nanobind::list& messages);

}  // namespace fovea::python
