// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/out_of_memory.h"
#include "base/read_file.h"
#include "fovea/fovea.h"
#include "gaze/plan_file.h"

namespace fovea {

Result<GivenPlan> load_plan(const std::string& path) {
  return within_memory([&]() -> Result<GivenPlan> {
    constexpr int64_t kMostBytes = int64_t{64} << 20;
    const auto text = read_file(path, kMostBytes, Takes::kPipes);
    if (!text) return text.error();
    auto read = parse_plan(*text);
    if (!read) return read.error();
    return GivenPlan(std::move(read->plan), read->canvas);
  });
}

}  // namespace fovea
