// SPDX-License-Identifier: Apache-2.0
// The stages of a request, in their order.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace fovea::app {

enum class Stage {
  kDecode,     // bytes of the file -> pixels
  kCanvas,     // pixels -> canvas
  kUpload,     // to the device, where there is one
  kPyramid,    // all levels
  kRelevance,  // maps and lost detail, and what the question couples with
  kPlan,       // choosing cells
  kPatches,    // sampling them
  kTower,      // patches -> visual tokens
  kPrompt,     // text -> tokens
  kRead,       // the question over the glance, where the model says where to look
  kPrefill,    // the prompt with all visual tokens
  kSample,     // drawing the first token
  kTokens,     // reading each token and drawing the next
  kOther,      // what no stage is charged with
};

inline constexpr std::array<std::string_view, 14> kStageNames = {
    "decode", "canvas", "upload", "pyramid", "relevance", "plan",   "patches",
    "tower",  "prompt", "read",   "prefill", "sample",    "tokens", "other"};
inline constexpr size_t kStageCount = kStageNames.size();

template <class T>
using PerStage = std::array<T, kStageCount>;

inline std::string_view name_of(Stage stage) { return kStageNames[static_cast<size_t>(stage)]; }

// The stage that a lap of the engine's stopwatches belongs to; none for those that hold others.
inline std::optional<Stage> stage_of_lap(std::string_view lap) {
  if (lap == "detail" || lap == "coupling") return Stage::kRelevance;
  if (lap == "generate") return Stage::kTokens;
  for (size_t i = 0; i < kStageCount; ++i)
    if (lap == kStageNames[i]) return static_cast<Stage>(i);
  return std::nullopt;
}

// Whether the CPU does it, whatever the device.
inline bool is_of_host(Stage stage) {
  return stage == Stage::kDecode || stage == Stage::kCanvas || stage == Stage::kPrompt ||
         stage == Stage::kOther;
}

}  // namespace fovea::app
