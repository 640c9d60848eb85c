// SPDX-License-Identifier: Apache-2.0
#include "eval/cards_questions.h"

#include <fmt/format.h>

#include <algorithm>

namespace fovea::eval {
namespace {

std::vector<Question> questions_of_scene(const CardsOptions& options, size_t scene, int count) {
  const uint64_t seed = scene_seed(options.seed, scene);
  const CardScene drawn = make_scene(seed, options.scene);
  std::vector<Question> questions;
  for (const CardQuestion& asked : make_questions(drawn, seed, options.families, count)) {
    Question question;
    question.id = fmt::format("{}/{}", seed, questions.size());
    question.family = std::string(family_name(asked.family));
    question.text = asked.text;
    question.answers = {asked.answer};
    question.payload_px = asked.payload_px;
    for (const int card : asked.evidence) {
      const CardBox& box = drawn.cards[static_cast<size_t>(card)].payload_box;
      question.evidence.push_back({static_cast<double>(box.x0), static_cast<double>(box.y0),
                                   static_cast<double>(box.x1), static_cast<double>(box.y1)});
    }
    question.picture = scene;
    questions.push_back(std::move(question));
  }
  return questions;
}

}  // namespace

Result<QuestionSet> cards_questions(Threads& threads, const CardsOptions& options) {
  if (auto checked = check_card_options(options.scene); !checked) return checked.error();
  if (options.seed > kMostCardsSeed)
    return bad_input(
        fmt::format("--seed {}: with --cards give at most {}", options.seed, kMostCardsSeed));
  const auto families = static_cast<int64_t>(options.families.size());
  const int64_t scenes = (options.questions + families - 1) / families;
  std::vector<std::vector<Question>> asked(static_cast<size_t>(scenes));
  threads.for_each(scenes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t scene = begin; scene < end; ++scene) {
      const int64_t count = std::min(families, options.questions - scene * families);
      asked[static_cast<size_t>(scene)] =
          questions_of_scene(options, static_cast<size_t>(scene), static_cast<int>(count));
    }
  });

  QuestionSet set;
  set.pictures = static_cast<size_t>(scenes);
  for (std::vector<Question>& questions : asked)
    std::move(questions.begin(), questions.end(), std::back_inserter(set.questions));
  arrange(set);
  set.picture = [options](size_t scene) -> Result<Image> {
    const uint64_t seed = scene_seed(options.seed, scene);
    if (options.honesty == Honesty::kNoise) return noise_of(options.scene.size, seed);
    CardOptions painted = options.scene;
    painted.blank_payloads = options.honesty == Honesty::kPayload;
    return make_scene(seed, painted).image;
  };
  return set;
}

}  // namespace fovea::eval
