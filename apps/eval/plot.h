// SPDX-License-Identifier: Apache-2.0
// Accuracy over tokens, or over bytes of keys and values, as a picture: a panel for each family, a
// line for each arm.
#pragma once

#include <string>

#include "eval/report.h"
#include "fovea/words.h"

namespace fovea::eval {

enum class PlotOver { kTokens, kBytes };

// `note` stands under the title: which model, which questions. Over bytes, rows whose bytes nobody
// knows are left out.
Image draw_plot(const Report& report, const std::string& note, PlotOver over = PlotOver::kTokens);

}  // namespace fovea::eval
