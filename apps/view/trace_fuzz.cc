// SPDX-License-Identifier: Apache-2.0
// Any bytes as a trace of fovea view: refused in one line, or an element that nothing in it ends,
// and whose JSON is the same trace.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "view/trace_element.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fovea::view::kTraceBegin;
  using fovea::view::kTraceEnd;
  const auto made = fovea::view::trace_element({reinterpret_cast<const char*>(data), size});
  if (!made) {
    const std::string& message = made.error().message;
    FOVEA_CHECK(!message.empty() && message.find('\n') == std::string::npos);
    return 0;
  }
  std::string_view inside = *made;
  FOVEA_CHECK(inside.starts_with(kTraceBegin) && inside.ends_with(kTraceEnd));
  inside.remove_prefix(kTraceBegin.size());
  inside.remove_suffix(kTraceEnd.size());
  FOVEA_CHECK(inside.find_first_of("<>&") == std::string_view::npos);
  const auto again = fovea::view::trace_element(inside);
  FOVEA_CHECK(static_cast<bool>(again) && *again == *made);
  return 0;
}
