// SPDX-License-Identifier: Apache-2.0
// Accuracy over tokens as a picture: a panel for each family, a line for each arm.
#pragma once

#include <string>

#include "eval/report.h"
#include "fovea/words.h"

namespace fovea::eval {

// `note` stands under the title: which model, which questions.
Image draw_plot(const Report& report, const std::string& note);

}  // namespace fovea::eval
