// SPDX-License-Identifier: Apache-2.0
#include "kept/settle_attention.h"

#include <fmt/format.h>

#include "ops/attention/sparse/schedule.h"

namespace fovea::kept {
namespace {

Status settle(const char* flag, AttentionPlace place, std::string& text) {
  constexpr int kMostLayers = 1024;  // the engine knows how many there are
  const auto schedule = parse_attention(text, place, kMostLayers);
  if (!schedule) return bad_input(fmt::format("{}: {}", flag, schedule.error().message));
  text = schedule->text();
  return Done{};
}

}  // namespace

Status settle_attention(AskOptions& options) {
  if (auto settled = settle("--attention", AttentionPlace::kTower, options.tower_attention);
      !settled)
    return settled;
  return settle("--attention-text", AttentionPlace::kText, options.text_attention);
}

}  // namespace fovea::kept
