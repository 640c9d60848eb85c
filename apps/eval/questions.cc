// SPDX-License-Identifier: Apache-2.0
#include "eval/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "eval/random.h"
#include "eval/score.h"

namespace fovea::eval {

std::vector<QuestionRange> questions_of_pictures(const QuestionSet& set) {
  std::vector<QuestionRange> ranges(set.pictures);
  for (size_t i = 0; i < set.questions.size(); ++i) {
    QuestionRange& range = ranges[set.questions[i].picture];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
  return ranges;
}

Chance chance_of(const QuestionSet& set, const std::string& family) {
  std::map<std::string, int64_t> answers;
  double by_options = 0;
  int64_t with_options = 0;
  int64_t n = 0;
  for (const Question& question : set.questions) {
    if (family != "all" && question.family != family) continue;
    ++n;
    if (question.options.empty()) {
      ++answers[normalised(question.answers.front())];
    } else {
      ++with_options;
      by_options += 1.0 / static_cast<double>(question.options.size());
      ++answers["option " + std::to_string(question.right_option)];
    }
  }
  if (n == 0) return {};
  int64_t most = 0;
  for (const auto& [answer, count] : answers) most = std::max(most, count);
  Chance chance;
  chance.most_frequent = static_cast<double>(most) / static_cast<double>(n);
  chance.uniform = with_options == n ? by_options / static_cast<double>(n)
                                     : 1.0 / static_cast<double>(answers.size());
  return chance;
}

void ask_options(Question& question, std::vector<std::string> options, uint64_t seed) {
  std::vector<size_t> order;
  order.reserve(options.size());
  for (size_t i = 0; i < options.size(); ++i) order.push_back(i);
  Random(seed).shuffle(order);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] == 0) question.right_option = static_cast<int>(i);
    question.text += fmt::format("\n{}. {}", static_cast<char>('A' + i), options[order[i]]);
    question.options.push_back(std::move(options[order[i]]));
  }
  question.text += "\nReply with the letter of the right option only.";
}

uint64_t fingerprint(const QuestionSet& set) {
  uint64_t hash = hash_text("");
  const auto add = [&](const std::string& text) { hash = hash_text(text + '\0', hash); };
  for (const Question& question : set.questions) {
    add(question.id);
    add(question.family);
    add(question.text);
    for (const std::string& answer : question.answers) add(answer);
    for (const std::string& option : question.options) add(option);
    for (const Box& box : question.evidence)
      add(fmt::format("{},{},{},{}", box.x0_px, box.y0_px, box.x1_px, box.y1_px));
    add(fmt::format("{} {} {}", question.right_option, question.payload_px, question.picture));
  }
  return hash;
}

void arrange(QuestionSet& set) {
  std::stable_sort(set.questions.begin(), set.questions.end(),
                   [](const Question& a, const Question& b) { return a.picture < b.picture; });
  std::set<std::string> known;
  for (const Question& question : set.questions)
    if (known.insert(question.family).second) set.families.push_back(question.family);
}

Image noise_of(Size size, uint64_t seed) {
  Image image(size);
  Random random(seed);
  for (size_t i = 0; i < image.rgb.size(); i += 8) {
    const uint64_t bits = random.next();
    for (size_t j = i; j < std::min(i + 8, image.rgb.size()); ++j)
      image.rgb[j] = static_cast<uint8_t>(bits >> (8 * (j - i)));
  }
  return image;
}

void paint_black(Image& image, const std::vector<Box>& boxes) {
  const auto within = [](double value, int most) {
    return static_cast<int>(std::clamp(value, 0.0, static_cast<double>(most)));
  };
  for (const Box& box : boxes) {
    const int left = within(std::floor(box.x0_px), image.size.width_px);
    const int right = within(std::ceil(box.x1_px), image.size.width_px);
    const int bottom = within(std::ceil(box.y1_px), image.size.height_px);
    for (int y = within(std::floor(box.y0_px), image.size.height_px); y < bottom; ++y)
      if (left < right) std::fill(image.row(y) + 3 * left, image.row(y) + 3 * right, uint8_t{0});
  }
}

}  // namespace fovea::eval
