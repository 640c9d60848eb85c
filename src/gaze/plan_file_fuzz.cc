// SPDX-License-Identifier: Apache-2.0
// Any text as a file of --plan.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "gaze/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto plan = fovea::parse_plan({reinterpret_cast<const char*>(data), size});
  if (!plan) {
    FOVEA_CHECK(plan.error().message.find('\n') == std::string::npos);
    return 0;
  }
  FOVEA_CHECK(!plan->plan.cells.empty());
  FOVEA_CHECK(plan->canvas.width_px >= 0 && plan->canvas.height_px >= 0);
  for (const fovea::Cell& cell : plan->plan.cells)
    for (const int value : {cell.level, cell.row, cell.col})
      FOVEA_CHECK(value >= -1 && value <= 1 << 24);
  return 0;
}
