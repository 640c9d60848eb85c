// SPDX-License-Identifier: Apache-2.0
#include "kept/settle_attention.h"

#include <fmt/format.h>

#include "ops/attention/sparse/schedule.h"
#include "ops/key_format.h"

namespace fovea::kept {
namespace {

constexpr int kMostLayers = 1024;  // the engine knows how many there are

Status settle(const char* flag, AttentionPlace place, std::string& text) {
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
  if (auto settled = settle("--attention-text", AttentionPlace::kText, options.text_attention);
      !settled)
    return settled;
  const auto formats = parse_key_formats(options.kv, kMostLayers);
  if (!formats) return bad_input(fmt::format("--kv: {}", formats.error().message));
  options.kv = formats->text();
  return Done{};
}

}  // namespace fovea::kept
