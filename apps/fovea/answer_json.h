// SPDX-License-Identifier: Apache-2.0
// Answers as JSON: whole ones for `ask`, and the parts that the server tells in its own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fovea/answer.h"

namespace fovea::app {

// What an answer rests on: usage, confidence, looks and times_ms. Nothing of what other requests
// take of this machine.
nlohmann::ordered_json basis_json(const Answer& answer);

// What a trace adds to that: the prompt, and each look's maps, attention and times.
void add_trace(const Answer& answer, nlohmann::ordered_json& json);

// What was seen in a picture: the object of `see --json`, with its four maps where they are wanted.
nlohmann::ordered_json sight_json(const Sight& sight, bool maps = false);

// One JSON object for `ask --json`, and everything the answer rests on for `--trace`.
std::string answer_json(const Answer& answer, double load_ms);
// `pictures`, where not empty, are those of the looks as data URLs.
std::string trace_json(const Answer& answer, const std::string& question, double load_ms,
                       const std::vector<std::string>& pictures = {});

}  // namespace fovea::app
