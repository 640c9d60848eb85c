// SPDX-License-Identifier: Apache-2.0
// Calls of tools in the text of an answer, in the hermes form that Qwen3-VL writes:
//   <tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea::serve {

// A piece of what an answer says: of its text, or of one of its calls.
struct AnswerPiece {
  int call = -1;   // counts from 0; -1: text
  std::string id;  // of a call's first piece alone, as is its name
  std::string name;
  std::string text;  // of the answer, or of the call's arguments: JSON as the model wrote it
};

// Text goes in as it is made; pieces come out as soon as they are certain, the same ones however
// the text was cut. Tags never come out. What stands between them and is no call is text; spaces
// around calls are neither.
class ToolCallParser {
 public:
  // Ids of calls are made from `id_seed`. `one_call`: any further ones are dropped.
  ToolCallParser(std::string_view id_seed, bool one_call);

  std::vector<AnswerPiece> add(std::string_view text);
  std::vector<AnswerPiece> finish();  // the text is over

  int calls() const { return calls_; }
  bool cut_short() const { return cut_short_; }  // the text ended inside a call

 private:
  enum class State { kText, kCall, kAfterCall };
  enum class Tag { kNone, kOpen, kClose, kUnsure };

  Tag tag_here() const;
  void read_on();
  bool step();  // takes something from `held_`; false: it must be longer first
  bool step_text();
  bool step_call();
  bool step_after();

  void begin_call();
  void end_call();
  bool take(char c);  // a character of a call; false: it cannot be one
  void end_member();
  void end_open_member();
  void take_value_character(char c);
  void say(std::string_view text);
  void name_call(std::string name);
  void add_arguments(std::string_view text);
  AnswerPiece& piece_of(int call);

  std::string id_seed_;
  bool one_call_;
  State state_ = State::kText;
  bool over_ = false;
  std::string held_;  // text, looked at up to `at_`
  size_t at_ = 0;
  std::string spaces_;  // at the end of the text so far
  int calls_ = 0;
  bool cut_short_ = false;
  std::vector<AnswerPiece> pieces_;

  // The call that is read: an object, of which the first level matters.
  struct Call {
    std::string body;  // all of it, until its name is known
    int depth = 0;
    bool in_string = false;
    bool escaped = false;
    bool in_value = false;
    std::string key;
    std::string part;  // of the key or the value that is read
    bool named = false;
    bool dropped = false;  // one too many
    bool streams = false;  // the value that is read: the arguments, an object
    bool has_arguments = false;
    std::string arguments;  // that came before the name
    char before = 0;        // the character before
  };
  Call call_;
};

// An answer that is whole.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;
};
struct SaidAndCalled {
  std::string text;
  std::vector<ToolCall> calls;
  bool cut_short = false;
};
SaidAndCalled split_tool_calls(std::string_view text, std::string_view id_seed, bool one_call);

}  // namespace fovea::serve
