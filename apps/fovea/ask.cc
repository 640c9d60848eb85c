// SPDX-License-Identifier: Apache-2.0
// fovea ask: a question about pictures, answered as the text is made.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "fovea/model_flags.h"

namespace fovea::app {
namespace {

struct AskFlags : ModelFlags {
  std::vector<std::string> words;  // images, then the question
  std::vector<std::string> fixations;
  bool json = false;
  std::string trace;
  std::string logits;
  std::string gaze;

  std::vector<std::string> images;
  std::string question;
};

std::string stdin_text() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

// The last word is the question. "-" there, or a picture there and something on stdin, reads the
// question from stdin.
Status read_question(AskFlags& flags) {
  flags.images = flags.words;
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(flags.words.back(), error);
  if (is_file && isatty(STDIN_FILENO) != 0)
    return bad_input(
        fmt::format("the last argument is the question, but {} is a file; try: fovea "
                    "ask {} \"what is this?\"",
                    flags.words.back(), flags.words.back()));
  if (!is_file) {
    flags.question = flags.words.back();
    flags.images.pop_back();
  }
  if (is_file || flags.question == "-") {
    for (const std::string& image : flags.images)
      if (image == "-") return bad_input("stdin cannot be both a picture and the question");
    flags.question = stdin_text();
  }
  if (flags.question.find_first_not_of(" \t\r\n") == std::string::npos)
    return bad_input("the question is empty; give it as the last argument, or on stdin with -");
  return Done{};
}

// What can be seen to be wrong with the files before a model is loaded and asked.
Status check_files(const AskFlags& flags) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const std::string& image : flags.images)
    if (image != "-" && !fs::exists(image, error))
      return bad_input(fmt::format("cannot open {}: is there such a file?", image));
  for (const std::string& path : {flags.trace, flags.gaze, flags.logits}) {
    if (path.empty() || path == "-") continue;
    const fs::path folder = fs::path(path).parent_path();
    if (fs::is_directory(path, error) || !(folder.empty() || fs::is_directory(folder, error)))
      return bad_input(fmt::format("cannot write {}: is its folder there and writable?", path));
  }
  return Done{};
}

std::string gaze_path(const std::string& path, size_t index) {
  if (index == 0) return path;
  const std::filesystem::path whole(path);
  const auto name =
      whole.stem().string() + fmt::format("-{}", index + 1) + whole.extension().string();
  return (whole.parent_path() / name).string();
}

Status write_results(const AskFlags& flags, const Answer& answer, double load_ms) {
  for (size_t i = 0; !flags.gaze.empty() && i < answer.trace.looks.size(); ++i)
    if (auto saved = save_png(gaze_path(flags.gaze, i), answer.trace.looks[i].picture); !saved)
      return saved;
  if (!flags.trace.empty())
    if (auto saved = write_text(flags.trace, trace_json(answer, flags.question, load_ms)); !saved)
      return saved;
  if (flags.json) return write_text("-", answer_json(answer, load_ms));
  return Done{};
}

int run(AskFlags& flags) {
  if (const auto read = read_model_flags(flags); !read) return complain(read.error());
  if (const auto read = read_question(flags); !read) return complain(read.error());
  AskOptions& options = flags.options;
  for (const std::string& fixation : flags.fixations)
    if (const auto added = add_fixation(options, fixation, flags.images.size()); !added)
      return complain(added.error());
  if (!flags.gaze.empty() && flags.images.empty())
    return complain(bad_input("--gaze needs an image"));
  if (const auto checked = check_files(flags); !checked) return complain(checked.error());
  options.draw = !flags.gaze.empty();
  options.attention = !flags.trace.empty();

  double load_ms = 0;
  const auto engine = load_model(flags, load_ms);
  if (!engine) return complain(engine.error());
  const StopOnInterrupt stop;
  Session session = engine->session();
  for (const std::string& image : flags.images)
    if (const auto added = session.add(image, flags.max_pixels); !added)
      return complain(added.error());
  std::ofstream logits;
  if (!flags.logits.empty()) {
    logits.open(flags.logits, std::ios::binary);
    options.on_logits = [&](std::span<const float> scores) {
      logits.write(reinterpret_cast<const char*>(scores.data()),
                   static_cast<std::streamsize>(scores.size_bytes()));
    };
  }
  Waiting waiting(flags.common);
  const auto answer = session.ask(flags.question, options, [&](std::string_view piece) {
    piece.empty() ? waiting.tick() : waiting.clear();
    if (!flags.json && !piece.empty()) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    }
    return !StopOnInterrupt::asked();
  });
  waiting.clear();
  if (!answer) return complain(answer.error());
  if (!flags.logits.empty() && !logits.flush())
    return complain(failed(fmt::format("cannot write {}", flags.logits)));
  if (!flags.json) {
    fmt::print("\n");
    std::fflush(stdout);  // before what goes to stderr
  }
  if (const auto written = write_results(flags, *answer, load_ms); !written)
    return complain(written.error());
  if (flags.stats) print_stats(*answer, load_ms);
  return answer->finish == "cancelled" ? kInterrupted : kGood;
}

}  // namespace

Run add_ask(CLI::App& program) {
  auto flags = std::make_shared<AskFlags>();
  CLI::App* command = program.add_subcommand("ask", "Answer a question about pictures");
  command
      ->add_option("words", flags->words,
                   "Pictures (JPEG, PNG or WebP; - reads stdin), then the question (- reads stdin)")
      ->required();
  add_model_flags(*command, *flags);
  command
      ->add_option(
          "--fixation", flags->fixations,
          "Look sharpest at x,y in pixels of the picture (N:x,y of the Nth); may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  auto* json = command->add_flag("--json", flags->json, "One JSON object instead of text");
  command
      ->add_option("--logprobs", flags->options.likely_tokens,
                   "With --json, this many of the most likely tokens of each step")
      ->check(whole_number(1, 10'000))
      ->needs(json);
  command->add_flag("--ignore-end", flags->options.ignore_end,
                    "Go on to --max-tokens past the model's own end of its answer");
  command->add_option("--logits", flags->logits,
                      "Write what each token is drawn from: float32, [tokens][vocabulary]");
  command->add_option("--trace", flags->trace, "Write all the answer rests on as JSON");
  command->add_option("--gaze", flags->gaze, "Write a picture of where it looked (PNG)");
  command->footer(
      "Examples:\n"
      "  fovea ask scene.png \"Which code is on the red star?\" --gaze gaze.png\n"
      "  fovea ask photo.jpg \"What is on the table?\" --model Qwen3-VL-2B-Instruct\n"
      "  fovea ask scene.png \"Which card holds K7?\" --looks 3 --budget 160 --json\n"
      "  fovea ask before.jpg after.jpg \"What changed?\" -m DIR --budget 256 --stats\n"
      "  fovea ask photo.jpg \"Read the sign\" -m DIR --fixation 320,240 --gaze gaze.png\n"
      "  fovea ask photo.jpg \"Describe it\" -m DIR --plan uniform --weights int8 --json\n"
      "  echo \"Who is this?\" | fovea ask photo.jpg - -m DIR\n"
      "Ctrl-C ends an answer early, with exit status 130.");
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
