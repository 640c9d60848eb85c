// SPDX-License-Identifier: Apache-2.0
// Where the looks of a glance+look plan go.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/read.h"
#include "engine/session.h"
#include "engine/view.h"

namespace fovea {

// How relevance is balanced where nothing else is asked for: a trained gaze head knows best; what a
// stock model attends to is weighed with what the picture says.
inline constexpr Balance kBalanceOfGazeHead = Balance::kCoupling;
inline constexpr Balance kBalanceOfStock = Balance::kMean;

// What a view is to be seen by, of options that check_ask() has passed.
SeeSettings settings_of(const Model& model, const AskOptions& options, const ImageView& view,
                        size_t image);

// The glance of a view's plan, how many looks may follow, and who says where they go.
Status plan_looks(const Model& model, ImageView& view, const AskOptions& options, Looked& looked);

// The most looks of any image; whether any of them is to follow the model.
int rounds_of(std::span<const Looked> looks);
bool any_asks_model(std::span<const Looked> looks);
bool looks_are_crops(std::span<const Looked> looks);
// Whether a conversation only grows: its looks are crops, or some were and none is mixed; and they
// are to be kept.
bool is_append_only(std::span<const Looked> looks, std::span<const ImageView> views,
                    const AskOptions& options);

// Chooses and encodes the looks of round 1, 2, ... of all images, by what was read before. False
// where it was stopped.
Result<bool> take_looks(SessionState& state, std::span<const int> images, std::span<Looked> looks,
                        int round, const std::optional<TokenPrompt>& prompt, const Reading& reading,
                        const std::function<bool()>& keep_going);

}  // namespace fovea
