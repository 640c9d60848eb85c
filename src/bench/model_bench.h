// SPDX-License-Identifier: Apache-2.0
// What the benches of a model share, on the CPU and on a device.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/model.h"
#include "fovea/fovea.h"

namespace fovea {

inline constexpr int kQuestionTokens = 32;
inline constexpr int kSmallBudget = 68;

double ms_of(const std::function<void()>& body);

// The picture that docs/results.md compares: 1024x1024 px, unless told otherwise.
Image random_picture(Size size = {1024, 1024});

// A question that makes the text of its prompt as long as the peers'.
std::string long_question(const std::shared_ptr<const Model>& model, AskOptions options);

// Of an answer's trace; 0 where it has no such stage.
double stage_ms(const Answer& answer, const std::string& stage);

}  // namespace fovea
