// SPDX-License-Identifier: Apache-2.0
// A trace as a part of the page.
#pragma once

#include <string>
#include <string_view>

#include "fovea/result.h"

namespace fovea::view {

inline constexpr std::string_view kTraceBegin = R"(<script type="application/json" id="trace">)";
inline constexpr std::string_view kTraceEnd = "</script>";

// The element of the page that holds a trace. Nothing in the trace can end it. The error of what is
// no trace is the reason alone.
Result<std::string> trace_element(std::string_view trace);

}  // namespace fovea::view
