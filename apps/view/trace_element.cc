// SPDX-License-Identifier: Apache-2.0
#include "view/trace_element.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "view/check_trace.h"

namespace fovea::view {
namespace {

// JSON that may stand inside a script element: it can neither end it nor begin a comment. These
// letters stand in strings alone, where their escapes mean the same.
void add_script_text(std::string_view json, std::string& text) {
  for (const char letter : json) {
    if (letter == '<')
      text += "\\u003c";
    else if (letter == '>')
      text += "\\u003e";
    else if (letter == '&')
      text += "\\u0026";
    else
      text += letter;
  }
}

}  // namespace

Result<std::string> trace_element(std::string_view trace) {
  const auto json = parse_ordered_json(trace);
  if (!json) return json.error();
  if (auto checked = check_trace(*json); !checked) return checked.error();
  const std::string written = json_text(*json);
  std::string element(kTraceBegin);
  element.reserve(kTraceBegin.size() + written.size() + kTraceEnd.size());
  add_script_text(written, element);
  return element += kTraceEnd;
}

}  // namespace fovea::view
