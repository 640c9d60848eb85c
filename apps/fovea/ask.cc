// SPDX-License-Identifier: Apache-2.0
// fovea ask: a question about pictures, answered as the text is made.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/model_flags.h"
#include "fovea/picture_url.h"
#include "fovea/stdin_text.h"

namespace fovea::app {
namespace {

struct AskFlags : ModelFlags {
  std::vector<std::string> words;  // images, then the question
  std::vector<std::string> fixations;
  bool json = false;
  std::string trace;
  bool trace_picture = false;
  std::string logits;
  std::string gaze;

  std::vector<std::string> images;
  std::string question;
  std::vector<std::vector<uint8_t>> files;  // of the images, for --trace-picture
};

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
    auto text = stdin_text(kMostQuestionBytes);
    if (!text) return text.error();
    while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
    flags.question = std::move(*text);
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
  if (flags.trace_picture && flags.trace.empty())
    return bad_input("--trace-picture needs --trace FILE, which is to hold the pictures");
  int on_stdout = flags.json ? 1 : 0;
  for (const std::string& path : {flags.trace, flags.gaze, flags.logits}) {
    if (path.empty()) continue;
    if (path == "-") ++on_stdout;
    if (auto checked = check_writable(path); !checked) return checked;
  }
  if (on_stdout > 1)
    return bad_input("of --json, --trace -, --gaze - and --logits - one alone can have stdout");
  if (flags.gaze == "-" && flags.images.size() > 1)
    return bad_input("--gaze - writes one picture, and there are more images; give a file's name");
  return Done{};
}

// Where the answer's text goes: not among the bytes of a file that has stdout.
bool text_to_stderr(const AskFlags& flags) {
  return flags.trace == "-" || flags.gaze == "-" || flags.logits == "-";
}

std::string gaze_path(const std::string& path, size_t index) {
  if (index == 0) return path;
  const std::filesystem::path whole(path);
  const auto name =
      whole.stem().string() + fmt::format("-{}", index + 1) + whole.extension().string();
  return (whole.parent_path() / name).string();
}

Status write_trace(const AskFlags& flags, const Answer& answer, double load_ms) {
  std::vector<std::string> pictures;
  pictures.reserve(flags.files.size());
  for (const std::vector<uint8_t>& file : flags.files) pictures.push_back(picture_url(file));
  return save_text(flags.trace, trace_json(answer, flags.question, load_ms, pictures));
}

Status write_results(const AskFlags& flags, const Answer& answer, double load_ms) {
  for (size_t i = 0; !flags.gaze.empty() && i < answer.trace.looks.size(); ++i)
    if (auto saved = save_png(gaze_path(flags.gaze, i), answer.trace.looks[i].picture); !saved)
      return saved;
  if (!flags.trace.empty())
    if (auto saved = write_trace(flags, answer, load_ms); !saved) return saved;
  if (flags.json) return save_text("-", answer_json(answer, load_ms));
  return Done{};
}

// What comes while an answer is made: its text, and what each token is drawn from. After a write
// that failed nothing is worth going on for.
class Stream {
 public:
  explicit Stream(const AskFlags& flags) : flags_(flags) {}

  Status open() {
    if (!flags_.json && !text_to_stderr(flags_)) {
      auto text = NewFile::create("-");
      if (!text) return text.error();
      text_.emplace(std::move(*text));
    }
    if (flags_.logits.empty()) return Done{};
    auto logits = NewFile::create(flags_.logits);
    if (!logits) return logits.error();
    logits_.emplace(std::move(*logits));
    return Done{};
  }

  bool good() const { return !error_; }
  const std::optional<Error>& lost() const { return error_; }
  void write_text(std::string_view text) {
    if (text_)
      keep_error(text_->write(text));
    else if (!flags_.json)
      to_stderr(std::string(text));
    if (!text.empty()) in_line_ = text.back() != '\n';
  }
  // What comes on stderr next begins a line.
  void end_line() {
    if (in_line_ && !text_ && !flags_.json) to_stderr("\n");
    in_line_ = false;
  }
  void write_logits(std::span<const float> scores) {
    if (good() && logits_)
      keep_error(
          logits_->write({reinterpret_cast<const char*>(scores.data()), scores.size_bytes()}));
  }
  Status close() {
    if (good()) write_text("\n");
    if (error_) return *error_;
    if (text_)
      if (auto closed = text_->commit(); !closed) return closed;
    return logits_ ? logits_->commit() : Status(Done{});
  }

 private:
  void keep_error(const Status& written) {
    if (!written && !error_) error_ = written.error();
  }

  const AskFlags& flags_;
  std::optional<NewFile> text_;
  std::optional<NewFile> logits_;
  std::optional<Error> error_;
  bool in_line_ = false;  // its text so far has not ended a line
};

int run(AskFlags& flags) {
  if (const auto read = read_question(flags); !read) return complain(read.error());
  if (const auto read = read_model_flags(flags, flags.images.size()); !read)
    return complain(read.error());
  AskOptions& options = flags.options;
  for (const std::string& fixation : flags.fixations)
    if (const auto added = add_fixation(options, fixation, flags.images.size()); !added)
      return complain(added.error());
  if (!flags.gaze.empty() && flags.images.empty())
    return complain(bad_input("--gaze needs an image"));
  if (const auto settled = settle_outputs(
          {{"--trace", &flags.trace}, {"--gaze", &flags.gaze}, {"--logits", &flags.logits}});
      !settled)
    return complain(settled.error());
  if (const auto checked = check_files(flags); !checked) return complain(checked.error());
  options.draw = !flags.gaze.empty();
  options.attention = !flags.trace.empty();
  options.answer_attention = options.attention;

  double load_ms = 0;
  const auto engine = load_model(flags, load_ms);
  if (!engine) return complain(engine.error());
  Session session = engine->session();
  flags.files.resize(flags.trace_picture ? flags.images.size() : 0);
  for (size_t i = 0; i < flags.images.size(); ++i)
    if (const auto added = flags.trace_picture
                               ? session.add(flags.images[i], flags.max_pixels, flags.files[i])
                               : session.add(flags.images[i], flags.max_pixels);
        !added)
      return complain(added.error());
  const StopOnInterrupt stop;  // from here on: until then Ctrl-C ends the program at once
  Stream stream(flags);
  if (const auto opened = stream.open(); !opened) return complain(opened.error());
  if (!flags.logits.empty())
    options.on_logits = [&](std::span<const float> scores) { stream.write_logits(scores); };
  Waiting waiting(flags.common);
  options.keep_going = [&] {
    waiting.tick();
    return stream.good() && !StopOnInterrupt::asked();
  };
  const auto answer = session.ask(flags.question, options, [&](std::string_view piece) {
    waiting.clear();
    stream.write_text(piece);
    return stream.good();
  });
  waiting.clear();
  if (!answer || !stream.good()) stream.end_line();
  if (!answer) return complain(answer.error());
  // An answer that was stopped before it began has nothing to replace older files with.
  if (answer->finish == "cancelled" && answer->tokens.empty())
    return stream.lost() ? complain(*stream.lost()) : kInterrupted;
  if (const auto closed = stream.close(); !closed) return complain(closed.error());
  if (const auto written = write_results(flags, *answer, load_ms); !written)
    return complain(written.error());
  if (flags.stats) print_stats(*answer, load_ms);
  return answer->finish == "cancelled" ? kInterrupted : kGood;
}

}  // namespace

Run add_ask(CLI::App& program) {
  auto flags = std::make_shared<AskFlags>();
  CLI::App* command = program.add_subcommand("ask", "Answer a question about pictures");
  add_words(*command, "words", flags->words,
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
  command
      ->add_option("--logits", flags->logits,
                   "Write what each token is drawn from: float32, [tokens][vocabulary]")
      ->check(some_path());
  command->add_option("--trace", flags->trace, "Write all the answer rests on as JSON")
      ->check(some_path());
  command->add_flag("--trace-picture", flags->trace_picture,
                    "The trace holds the pictures too, so that fovea view shows them");
  command->add_option("--gaze", flags->gaze, "Write a picture of where it looked (PNG)")
      ->check(some_path());
  command->footer(
      "Examples:\n"
      "  fovea ask scene.png \"Which code is on the red star?\" --gaze gaze.png\n"
      "  fovea ask photo.jpg \"What is on the table?\" --model Qwen3-VL-2B-Instruct\n"
      "  fovea ask scene.png \"Which card holds K7?\" --looks 3 --budget 160 --json\n"
      "  fovea ask before.jpg after.jpg \"What changed?\" -m DIR --budget 256 --stats\n"
      "  fovea ask photo.jpg \"Read the sign\" -m DIR --fixation 320,240 --gaze gaze.png\n"
      "  fovea ask photo.jpg \"Describe it\" -m DIR --plan uniform --weights int8 --json\n"
      "  echo \"Who is this?\" | fovea ask photo.jpg - -m DIR\n"
      "Ctrl-C ends an answer early, with exit status 130. With - for --logits, --trace or --gaze\n"
      "that file goes to stdout, and the answer's text to stderr.");
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
