// SPDX-License-Identifier: Apache-2.0
// Where a request wants to look: "detail" of its pictures and its "fovea" object.
#pragma once

#include <optional>
#include <string_view>

#include "serve/openai/chat_request.h"
#include "serve/openai/read_json.h"

namespace fovea::serve {

// In the order of what they cost. A request has one budget, that of its largest.
enum class PictureDetail { kNone, kLow, kAuto, kHigh, kOriginal };

std::optional<PictureDetail> detail_named(std::string_view name);

// The plan, its budget and what it follows. Comes after the messages: places are per picture.
// Names of plans, looks and balances are the engine's to check.
Fault read_look(const Fields& body, PictureDetail detail, ChatCall& call);

}  // namespace fovea::serve
