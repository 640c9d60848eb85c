// SPDX-License-Identifier: Apache-2.0
// fovea chat: a conversation about pictures. What is known of them stays in memory, so that a
// second question is answered sooner than the first.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "fovea/model_flags.h"

namespace fovea::app {
namespace {

struct ChatFlags : ModelFlags {
  std::vector<std::string> images;
};

constexpr const char* kHelp =
    "  /look x,y   look sharpest there from the next question on (N:x,y in the Nth picture)\n"
    "  /look       let the engine choose again\n"
    "  /new        forget the conversation, keep the pictures\n"
    "  /stats      tokens, times and memory after each answer, on or off\n"
    "  /quit       or Ctrl-D\n";

class Conversation {
 public:
  Conversation(ChatFlags& flags, Session session, double load_ms)
      : flags_(flags), session_(std::move(session)), load_ms_(load_ms) {}

  // False ends the conversation.
  bool say(const std::string& line) {
    if (line.empty()) return true;
    if (line[0] != '/') {
      ask(line);
      return true;
    }
    if (line == "/quit") return false;
    if (line == "/new")
      turns_.clear();
    else if (line == "/stats")
      flags_.stats = !flags_.stats;
    else if (line == "/look")
      flags_.options.fixations.clear();
    else if (line.starts_with("/look "))
      look(line.substr(6));
    else
      fmt::print(stderr, "{}", kHelp);
    return true;
  }
  bool failed() const { return failed_; }

 private:
  void look(const std::string& where) {
    AskOptions next = flags_.options;
    next.fixations.clear();
    if (const auto added = add_fixation(next, where, flags_.images.size()); !added)
      complain(added.error());
    else
      flags_.options = next;
  }

  void ask(const std::string& question) {
    Turn turn;
    if (turns_.empty())
      for (size_t i = 0; i < flags_.images.size(); ++i)
        turn.parts.push_back({static_cast<int>(i), ""});
    turn.parts.push_back({-1, question});
    turns_.push_back(std::move(turn));
    const StopOnInterrupt stop;
    Waiting waiting(flags_.common);
    const auto answer = session_.ask(turns_, flags_.options, [&](std::string_view piece) {
      piece.empty() ? waiting.tick() : waiting.clear();
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
      return !StopOnInterrupt::asked();
    });
    waiting.clear();
    if (!answer) {
      complain(answer.error());
      turns_.pop_back();
      failed_ = true;
      return;
    }
    fmt::print("\n");
    std::fflush(stdout);
    turns_.push_back({"assistant", {{-1, answer->text}}});
    if (flags_.stats) print_stats(*answer, load_ms_);
  }

  ChatFlags& flags_;
  Session session_;
  double load_ms_;
  std::vector<Turn> turns_;
  bool failed_ = false;
};

int run(ChatFlags& flags) {
  if (const auto read = read_model_flags(flags); !read) return complain(read.error());
  double load_ms = 0;
  const auto engine = load_model(flags, load_ms);
  if (!engine) return complain(engine.error());
  Session session = engine->session();
  for (const std::string& image : flags.images) {
    if (image == "-")
      return complain(bad_input("stdin holds the questions; give a picture's file"));
    if (const auto added = session.add(image, flags.max_pixels); !added)
      return complain(added.error());
  }
  Conversation conversation(flags, std::move(session), load_ms);
  const bool person = isatty(STDIN_FILENO) != 0 && !flags.common.quiet;
  if (person) fmt::print(stderr, "Ask, or /help.\n");
  std::string line;
  do {
    if (person) fmt::print(stderr, "> ");
  } while (std::getline(std::cin, line) && conversation.say(line));
  return conversation.failed() && !person ? kFailed : kGood;
}

}  // namespace

Run add_chat(CLI::App& program) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command = program.add_subcommand("chat", "Talk about pictures, a line a question");
  command->add_option("images", flags->images, "Pictures: JPEG, PNG or WebP");
  add_model_flags(*command, *flags);
  command->footer(std::string("Examples:\n"
                              "  fovea chat photo.jpg --model Qwen3-VL-2B-Instruct\n"
                              "  fovea chat page1.png page2.png -m DIR --budget 256 --stats\n"
                              "While it runs:\n") +
                  kHelp);
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
