// SPDX-License-Identifier: Apache-2.0
// The nouns of asking: what is asked for, what comes back, and what it rests on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/memory_usage.h"
#include "fovea/sampling.h"
#include "fovea/words.h"

namespace fovea {

// A part of a message: an image of the session by its number, or text.
struct Part {
  int image = -1;  // -1: text
  std::string text;
};

struct Message {
  std::string role = "user";  // "system", "user", "assistant", or "tool": what a call gave
  std::vector<Part> parts;
  // Of the assistant: the tools it called, a JSON list as in OpenAI's chat API; empty: none. The
  // model's chat template gets it as it is: arguments may be an object or a text.
  std::string tool_calls;
};

// A plan made elsewhere, its cells in any order.
struct GivenPlan : Plan {
  GivenPlan() = default;
  GivenPlan(Plan plan, Size its_canvas = {})  // NOLINT: implicit
      : Plan(std::move(plan)), canvas(its_canvas) {}

  Size canvas;  // it was made for, which must be the image's; 0x0: not known
};

struct AskOptions {
  // Where to look. Plans, budgets and fixations are per image.
  std::string plan = "glance+look";  // one of plan_kinds()
  int budget_tokens = -1;            // the most cells; -1: the default (96; level 0 for "uniform")
  int looks = 1;                     // of "glance+look", at most; they share the budget evenly
  std::vector<std::vector<Point>> fixations;  // of each image, in its pixels; may be shorter
  // None, or one for each image, made here where one has no cells. A budget that is given binds
  // them too; fixations, coupling and looks have no say where there is one.
  std::vector<GivenPlan> plans;
  // What the question has to do with each place of each image, in place of what the model says; any
  // grid, may be shorter, empty maps are left to the model.
  std::vector<Map> coupling;
  std::string balance;  // as in SeeOptions; empty: as suits the model
  // How "glance+look" looks. "mixed": fine cells behind the glance; "crops": rectangles, each an
  // image of its own; "off": the glance alone. Empty: mixed for models made for it, else crops.
  std::string look;
  double sure = 0.9;  // no further look where the first token is at least so probable
  // One look more than `looks`, for the answer: before a token of which even the most likely one is
  // less probable than this, or when look_again() says so, which is asked before each token. Its
  // cells are read where the answer stands, and nothing is read again but the token before. The
  // looks share the budget with it. For mixed looks; of several answers, for the first.
  double relook = 0;
  std::function<bool()> look_again;
  bool size_bias = false;  // coarse cells count for as much as they cover
  // How attention is computed: one of attention_choices(), or several with commas, each for an
  // equal part of the layers, the first ones first; "hierarchical:0.1" says the share seen in full.
  // Empty: dense. A GPU has eight kinds of the tower, dense and prefix of the language model.
  std::string tower_attention;  // of patches
  std::string text_attention;   // of tokens, in the language model
  // What memory keeps, on a CPU: of the keys of visual tokens, summed over layers, this share, by
  // one of forget_choices() (empty: vl-cache). Text stays. Every token of the answer sees the kept
  // ones alone, and so do questions that follow in the conversation.
  double keep = 1;
  std::string forget;
  // How keys and values of the language model are stored, on a CPU: one of kv_choices(), or several
  // with commas, each for an equal part of the layers, the first ones first. Empty: f32.
  std::string kv;
  // In a conversation whose looks are crops: those of earlier questions stay in their messages, and
  // nothing is read again. Off: they are dropped, which makes room and reads again what follows the
  // images.
  bool keep_looks = true;
  // How to answer.
  int max_tokens = 256;
  double temperature = 0;  // 0: always the most likely token
  int top_k = 0;           // 0: all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  // As in OpenAI's API, -2 to 2: what is subtracted from the logit of a token that the answer holds
  // already, once for each time and once for all times.
  double frequency_penalty = 0;
  double presence_penalty = 0;
  std::vector<TokenBias> logit_bias;  // added to logits; -100 (never drawn) to 100
  // Before so many tokens the model's end of answer is never drawn, with ignore_end too; stop
  // strings end an answer all the same.
  int least_tokens = 0;
  TokenMask mask;  // called for each token of an answer: which may come next; empty: all
  uint64_t seed = 0;
  int answers = 1;          // so many, each with its own seed: `seed`, and those that follow it
  bool ignore_end = false;  // go on to max_tokens past the model's own end of answer
  std::vector<std::string> stop;  // an answer ends before the first of these
  std::string system;             // a first message of the role "system"; empty: none
  // The tools that the model may call, for its chat template: a JSON list as in OpenAI's chat API;
  // empty: none. Calls are in the answer's text, as the template taught the model to write them.
  std::string tools;
  // What else the chat template is told, by names that it knows: a JSON object; empty: nothing.
  // Names that are the prompt's own (messages, tools, ...) are refused.
  std::string template_options;
  // For chat templates that ask whether the model is to think first; not given: their own default.
  std::optional<bool> enable_thinking = std::nullopt;
  // Special tokens (<|im_end|>, ...) written in a question, a system text, an earlier message or
  // tools are text like any other. On: they are tokens, as in transformers.
  bool allow_special = false;
  // What is computed of an image may serve other sessions of the model, and what they computed this
  // one, where the salt is the same; the answer is the same with and without.
  bool share = true;
  std::string salt;
  // What to report.
  int likely_tokens = 0;   // of each step, so many of the most likely
  bool attention = false;  // fill Look::attention
  // Fill AnswerToken::attention, and Look::attention with it. Where a device decodes, each token is
  // then drawn on the CPU, from logits that are copied there.
  bool answer_attention = false;
  bool draw = false;  // fill Sight::picture
  // Sees what each token is drawn from: a score for every token of the vocabulary.
  std::function<void(std::span<const float> logits)> on_logits;
  // Asked many times a second, from the first work on; false stops the answer. Calls of all kinds
  // come from the engine's own thread, one at a time.
  std::function<bool()> keep_going;
};

// Gets each piece of the answer as soon as it is certain; false stops the answer.
using OnText = std::function<bool(std::string_view piece)>;

struct LikelyToken {
  int id = 0;
  std::string token;  // its bytes, which need not be whole characters
  double logprob = 0;
};

struct AnswerToken : LikelyToken {
  std::vector<LikelyToken> likely;  // best first
  double ms = 0;                    // since the token before, or since the prompt was read
  // How much was attended to each cell of each look of the trace where this token was drawn: by the
  // prompt's last token for the first of an answer, by the token before for the others. Of the
  // first tokens of a request, as many as hold kMostAnswerAttention of these values.
  std::vector<std::vector<float>> attention;
};

inline constexpr int64_t kMostAnswerAttention = 250'000;

// What the front end made of one image, and everything that choice rests on.
struct Sight {
  Size image;
  Size canvas;
  Plan plan;
  int64_t tokens_full = 0;       // cells of the uniform level-0 plan of this canvas
  int64_t patch_bytes = 0;       // what the tower is given, as float32
  std::vector<Point> fixations;  // canvas pixels: the given ones, or those the maker took
  Map information;               // all maps: one score a level-0 cell
  Map salience;
  Map coupling;  // all zero where nothing was asked
  Map relevance;
  std::vector<StageTime> times;
  Image picture;  // for a person; empty where it was not asked for
};

// A rectangle of an image, in canvas pixels.
struct Area {
  int x_px = 0;
  int y_px = 0;
  Size size;
};

// One look at an image, and why it went there.
struct Saccade {
  int begin = 0;  // its cells in the plan: [begin, end)
  int end = 0;
  Map coupling;  // that it followed; all zero where nothing was asked
  Map relevance;
  std::vector<Point> fixations;  // canvas pixels: the middles of its clusters, the best first
  std::vector<Area> crops;       // of --look crops, in the order of their cells
  double look_ms = 0;            // choosing and encoding
  double read_ms = 0;            // reading the prompt with it
  double confidence = 0;         // after it: how probable the most likely first token was
};

// One image of an answer. The cells of its plan stand in the order of their tokens: the glance, the
// first look, the second, ...; its maps are those of the first look.
struct Look : Sight {
  int glance_tokens = 0;   // the first cells of the plan, encoded before the others
  int encoded_tokens = 0;  // cells that went through the tower now; the others were kept
  std::string look;        // "mixed", "crops" or "off"; empty for plans of other makers
  std::vector<Saccade> saccades;
  std::vector<float> attention;  // of the last prompt tokens to each cell of the plan
};

struct Usage {
  int64_t text_tokens = 0;  // of the prompt
  int64_t image_tokens = 0;
  int64_t image_tokens_full = 0;  // what the uniform level-0 plans would hold
  int64_t patches = 0;
  int64_t kept_tokens = 0;  // of the prompt, not computed again
  int64_t answer_tokens = 0;
  // Where keys were forgotten for this answer: those of visual tokens, in all layers, and how many
  // of them stayed; bytes of all keys and values of the conversation just before and after.
  int64_t visual_keys = 0;
  int64_t visual_keys_kept = 0;
  int64_t kv_bytes_before = 0;
  int64_t kv_bytes_after = 0;
  MemoryUsage memory;  // after the answer; of a device nothing yet
};

struct Trace {
  std::string prompt;           // one placeholder token for each image and each crop
  std::vector<int> prompt_ids;  // likewise
  std::vector<Look> looks;
  Usage usage;
  double confidence = 0;         // how probable the most likely first token was
  std::vector<StageTime> times;  // "first_token" counts from the question to the first token
  int64_t weights_bytes = 0;
  int64_t kv_bytes = 0;    // keys and values of the language model
  int64_t peak_bytes = 0;  // the most memory this process ever held
};

struct Answer {
  std::string text;
  std::vector<AnswerToken> tokens;
  // "end" of the model's answer, a "stop" string, "length", "cancelled" or "deadline".
  std::string finish;
  Trace trace;
  std::vector<Answer> others;  // AskOptions::answers less this one; its trace is of all
};

}  // namespace fovea
