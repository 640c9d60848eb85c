// SPDX-License-Identifier: Apache-2.0
// Whether a JSON value is a trace that the page can show.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "fovea/result.h"

namespace fovea::view {

// What the page cannot do without: looks with an image, a canvas and cells on it. What else a trace
// holds may be missing, but where it is there it has its shape.
Status check_trace(const nlohmann::ordered_json& trace);

}  // namespace fovea::view
