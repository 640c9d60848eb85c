// SPDX-License-Identifier: Apache-2.0
// Questions about fresh scenes of CardField.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/threads.h"
#include "cards/cards.h"
#include "eval/questions.h"

namespace fovea::eval {

struct CardsOptions {
  int64_t questions = 0;  // in all, the families in turn
  uint64_t seed = 0;      // at most kMostCardsSeed
  std::vector<Family> families;
  CardOptions scene;
  Honesty honesty = Honesty::kOff;
};

// Training draws scenes from seeds below 2^40. Evaluation with seed S takes 2^40 (S + 1) + scene:
// no scene is in both, nor in two evaluations with different S.
inline constexpr uint64_t kMostCardsSeed = (uint64_t{1} << 24) - 2;
constexpr uint64_t scene_seed(uint64_t seed, uint64_t scene) {
  return (uint64_t{1} << 40) * (seed + 1) + scene;
}

// Each scene is asked one question of each family; the last one as many as are left.
Result<QuestionSet> cards_questions(Threads& threads, const CardsOptions& options);

}  // namespace fovea::eval
