// SPDX-License-Identifier: Apache-2.0
// A picture's file as a data URL, for traces that show it.
#pragma once

#include <string>

#include "fovea/result.h"

namespace fovea::app {

Result<std::string> picture_url(const std::string& path);

}  // namespace fovea::app
