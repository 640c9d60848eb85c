// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fovea/answer.h"
#include "fovea/result.h"

namespace fovea::kept {

// The same attention, and formats of keys and values, in the same words, so that a run is known
// again; an error names the flag.
Status settle_attention(AskOptions& options);

}  // namespace fovea::kept
