// SPDX-License-Identifier: Apache-2.0
// By what a run knows the model of an earlier run again.
#pragma once

#include <cstdint>
#include <string>

#include "fovea/result.h"

namespace fovea::kept {

// A number that changes with the files of a model folder: their names and sizes, and parts of each.
Result<uint64_t> model_fingerprint(const std::string& folder);

// The last part of a folder's path.
std::string model_name(const std::string& folder);

}  // namespace fovea::kept
