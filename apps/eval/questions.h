// SPDX-License-Identifier: Apache-2.0
// What is asked: questions with their answers, and the pictures they are about.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/result.h"
#include "fovea/words.h"

namespace fovea::eval {

// A rectangle of an image in its pixels, from (x0, y0) up to but without (x1, y1).
struct Box {
  double x0_px = 0;
  double y0_px = 0;
  double x1_px = 0;
  double y1_px = 0;

  friend bool operator==(const Box&, const Box&) = default;
};

struct Question {
  std::string id;
  std::string family;
  std::string text;                  // as it is asked, options included
  std::vector<std::string> answers;  // any of these is right; unused where there are options
  std::vector<std::string> options;  // of a multiple choice, in the order of their letters
  int right_option = -1;
  int payload_px = 0;         // the height of what has to be read; 0: nothing, or not known
  std::vector<Box> evidence;  // what the answer rests on; empty: not known
  size_t picture = 0;
};

struct QuestionSet {
  std::vector<Question> questions;    // those of one picture stand together
  std::vector<std::string> families;  // in the order of the table
  size_t pictures = 0;
  std::function<Result<Image>(size_t picture)> picture;  // may be called by several threads
};

// The questions of each picture: [begin, end) of QuestionSet::questions.
struct QuestionRange {
  size_t begin = 0;
  size_t end = 0;
};
std::vector<QuestionRange> questions_of_pictures(const QuestionSet& set);

// What can be guessed without a picture: the share of the most frequent answer of a family, and
// one over the number of answers it knows (of options, where there are any).
struct Chance {
  double most_frequent = 0;
  double uniform = 0;
};
Chance chance_of(const QuestionSet& set, const std::string& family);

// The question with its options under it, in an order drawn from `seed`. The first one is right.
void ask_options(Question& question, std::vector<std::string> options, uint64_t seed);

// A number that changes with anything that is asked; a resumed run must ask the same.
uint64_t fingerprint(const QuestionSet& set);

// Puts questions of one picture side by side and families in the order they first appear.
void arrange(QuestionSet& set);

enum class Honesty { kOff, kPayload, kNoise };

// Noise instead of a picture, of its size.
Image noise_of(Size size, uint64_t seed);
// Black where the evidence is.
void paint_black(Image& image, const std::vector<Box>& boxes);

struct DataOptions {
  std::string path;    // a folder or a file
  std::string images;  // where images are looked for; empty: beside the file that names them
  uint64_t seed = 0;   // of the order of options
  Honesty honesty = Honesty::kOff;
};

// LLaVA's JSON and JSONL, LLaVA's evaluation JSONL, and V*'s JSON beside each image (docs/eval.md).
// An error names the file and the line.
Result<QuestionSet> read_questions(const DataOptions& options);

}  // namespace fovea::eval
