// SPDX-License-Identifier: Apache-2.0
// What an answer's trace says of the passes it took.
#pragma once

#include "fovea/answer.h"
#include "profile/count.h"
#include "weights/config.h"

namespace fovea::app {

// Of a question about one image, to a session that knew nothing before.
RequestShape shape_of(const Answer& answer, const ModelConfig& config, int64_t file_bytes);

}  // namespace fovea::app
