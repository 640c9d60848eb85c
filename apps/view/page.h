// SPDX-License-Identifier: Apache-2.0
// The page that shows where the model looked: one HTML file, from apps/view/page.
#pragma once

#include <string>
#include <string_view>

#include "fovea/result.h"

namespace fovea::view {

// The page as the server gives it: a person asks with it the server that it came from.
std::string_view page();

// The Content-Security-Policy that goes with it: its own script and style alone run.
std::string page_policy();

// The page as a file that opens alone and shows a trace, which is what `fovea ask --trace` writes.
// The error of one that is none is the reason alone.
Result<std::string> page_with(std::string_view trace);

}  // namespace fovea::view
