// SPDX-License-Identifier: Apache-2.0
// fovea chat: a conversation about pictures. What is known of them stays in memory, so that a
// second question is answered sooner than the first.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "fovea/model_flags.h"
#include "fovea/stdin_text.h"

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
      return !lost_;
    }
    if (line == "/quit") return false;
    if (line == "/new")
      messages_.clear();
    else if (line == "/stats")
      flags_.stats = !flags_.stats;
    else if (line == "/look")
      flags_.options.fixations.clear();
    else if (line.starts_with("/look "))
      look(line.substr(6));
    else
      to_stderr(kHelp);
    return true;
  }
  bool failed() const { return failed_; }
  // An answer that stdout did not take; nobody can read any other either.
  const std::optional<Error>& lost() const { return lost_; }

 private:
  void print(std::string_view text) {
    if (const auto written = save_text("-", text); !written) lost_ = written.error();
  }

  void look(const std::string& where) {
    AskOptions next = flags_.options;
    next.fixations.clear();
    if (const auto added = add_fixation(next, where, flags_.images.size()); !added)
      complain(added.error());
    else
      flags_.options = std::move(next);
  }

  void ask(const std::string& question) {
    Message message;
    if (messages_.empty())
      for (size_t i = 0; i < flags_.images.size(); ++i)
        message.parts.push_back({static_cast<int>(i), ""});
    message.parts.push_back({-1, question});
    messages_.push_back(std::move(message));
    const StopOnInterrupt stop;
    Waiting waiting(flags_.common);
    AskOptions options = flags_.options;
    options.keep_going = [&] {
      waiting.tick();
      return !lost_ && !StopOnInterrupt::asked();
    };
    const auto answer = session_.ask(messages_, options, [&](std::string_view piece) {
      waiting.clear();
      print(piece);
      return !lost_;
    });
    waiting.clear();
    if (lost_) return;
    if (!answer) {
      complain(answer.error());
      messages_.pop_back();
      failed_ = true;
      return;
    }
    print("\n");
    messages_.push_back({"assistant", {{-1, answer->text}}});
    if (flags_.stats) print_stats(*answer, load_ms_);
  }

  ChatFlags& flags_;
  Session session_;
  double load_ms_;
  std::vector<Message> messages_;
  bool failed_ = false;
  std::optional<Error> lost_;
};

int run(ChatFlags& flags) {
  if (const auto read = read_model_flags(flags, flags.images.size()); !read)
    return complain(read.error());
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
  if (person) tell("Ask, or /help.\n");
  StdinLines lines(kMostQuestionBytes);
  std::string line;
  do {
    if (person) tell("> ");
    const auto read = lines.next(line);
    if (!read) return complain(read.error());
    if (!*read) break;
  } while (conversation.say(line));
  if (conversation.lost()) return complain(*conversation.lost());
  return conversation.failed() && !person ? kFailed : kGood;
}

}  // namespace

Run add_chat(CLI::App& program) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command = program.add_subcommand("chat", "Talk about pictures, a line a question");
  add_words(*command, "images", flags->images, "Pictures: JPEG, PNG or WebP");
  add_model_flags(*command, *flags);
  command->add_flag("!--drop-looks", flags->options.keep_looks,
                    "Where looks are crops: leave those of earlier questions out, for room, at the "
                    "price of reading again what follows the pictures");
  command->footer(std::string("Examples:\n"
                              "  fovea chat photo.jpg --model Qwen3-VL-2B-Instruct\n"
                              "  fovea chat page1.png page2.png -m DIR --budget 256 --stats\n"
                              "While it runs:\n") +
                  kHelp);
  return [flags] { return run(*flags); };
}

}  // namespace fovea::app
