// SPDX-License-Identifier: Apache-2.0
// Arms: the ways of choosing cells that are compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eval/questions.h"
#include "fovea/answer.h"
#include "fovea/words.h"

namespace fovea::eval {

struct ArmKind {
  const char* name;
  const char* description;  // one line for --help and the docs
};
std::span<const ArmKind> arm_kinds();

struct Setting {
  std::string arm;
  int budget_tokens = 0;  // 0: no budget

  friend bool operator==(const Setting&, const Setting&) = default;
};

// Every arm with every budget; "full" has none and stands once.
std::vector<Setting> settings_of(const std::vector<std::string>& arms,
                                 const std::vector<int>& budgets);

// What an arm may know of a question.
struct ArmScene {
  Size image;
  Size canvas;                // of a plan that keeps every pixel
  std::vector<Box> evidence;  // canvas pixels
  uint64_t seed = 0;          // of what is drawn at random
};

// Boxes in pixels of the image -> canvas pixels, without what lies outside.
std::vector<Box> boxes_on_canvas(const std::vector<Box>& boxes, Size image, Size canvas);

// Puts the arm's choice into the options of a question about one image.
void choose_arm(const Setting& setting, const ArmScene& scene, AskOptions& options);

// Every cell has a score of its own, drawn at random: the best are a random choice.
Map random_map(Size canvas, uint64_t seed);

// The evidence (canvas pixels) far above all else, a cell the higher the more of it lies there;
// then what is near it. Without evidence at random.
Map oracle_map(Size canvas, const std::vector<Box>& evidence, uint64_t seed);

// How much of the boxes' area (canvas pixels) lies in level-0 cells; 1 only where all of it does.
double share_covered(std::span<const Cell> cells, const std::vector<Box>& boxes);

}  // namespace fovea::eval
