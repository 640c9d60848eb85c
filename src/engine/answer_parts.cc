// SPDX-License-Identifier: Apache-2.0
#include "engine/answer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "engine/attention_settings.h"
#include "engine/forget.h"
#include "engine/generate.h"
#include "engine/look.h"
#include "language/chat_tools.h"
#include "language/template_options.h"
#include "weights/memory_need.h"

namespace fovea {
namespace {

// What a likely token takes, with its JSON; the most of them that an answer keeps, of all its
// steps.
constexpr int64_t kLikelyTokenBytes = 850;
constexpr int64_t kMostLikelyTokens = 4'000'000;
constexpr int kMostAnswers = 128;

// The most this process ever held, mapped files included.
int64_t peak_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

void count_tokens(Usage& usage, const TokenPrompt& prompt, std::span<const ImageView> views) {
  for (const ImageRange& range : prompt.images) {
    usage.image_tokens += range.end - range.begin;
    if (!range.crop)
      usage.image_tokens_full +=
          grid_at(views[static_cast<size_t>(range.image)].prepared->canvas(), 0).cells();
  }
  usage.patches = usage.image_tokens * kPatchesPerCell;
  usage.text_tokens = prompt.tokens() - usage.image_tokens;
}

// What was asked, for the picture.
std::string text_of(const Message& message) {
  std::string text;
  for (const Part& part : message.parts)
    if (part.image < 0) text += (text.empty() ? "" : " ") + part.text;
  return text;
}

// The last question of the user; what tools said may stand behind it.
std::string question_of(std::span<const Message> messages) {
  const auto asked = std::find_if(messages.rbegin(), messages.rend(),
                                  [](const Message& message) { return message.role == "user"; });
  return asked == messages.rend() ? "" : text_of(*asked);
}

Status check_all_json(std::span<const Message> messages, const AskOptions& options) {
  if (auto checked = check_template_options(options.template_options); !checked) return checked;
  if (!options.tools.empty())
    if (auto checked = check_tools("tools", options.tools); !checked) return checked;
  for (const Message& message : messages) {
    if (message.tool_calls.empty()) continue;
    if (message.role != "assistant")
      return bad_input(fmt::format(
          "a message of the role {} has tool_calls; only those of the assistant may have them",
          in_quotes(message.role)));
    if (auto checked = check_tools("tool_calls", message.tool_calls); !checked) return checked;
  }
  return Done{};
}

// To each cell of an image's plan, where it is shown first. `mass` is of the keys from `key_begin`
// on, or empty.
std::vector<float> attention_to(const TokenPrompt& prompt, int image, size_t cells,
                                int64_t key_begin, std::span<const float> mass) {
  std::vector<float> attention;
  for (const ImageRange& range : prompt.images) {
    if (range.image != image || range.past || mass.empty()) continue;
    if (attention.size() >= cells || (!range.crop && !attention.empty())) continue;
    const auto begin = mass.begin() - key_begin;
    attention.insert(attention.end(), begin + range.begin, begin + range.end);
  }
  return attention;
}

struct PromptLength {
  int64_t text = 0;
  int64_t visual = 0;

  int64_t tokens() const { return text + visual; }
};

int64_t room_after(const Model& model, int64_t prompt_tokens, const AskOptions& options) {
  return std::min<int64_t>(options.max_tokens, model.config().text.max_positions - prompt_tokens);
}

Status check_length(const Model& model, const PromptLength& length, const AskOptions& options) {
  const int64_t context = model.config().text.max_positions;
  if (length.tokens() >= context)
    return because(
        Error::Reason::kContext,
        bad_input(fmt::format(
            "the prompt has {} tokens ({} of text, {} of images), but the model's context is {}; "
            "{}",
            with_commas(length.tokens()), with_commas(length.text), with_commas(length.visual),
            with_commas(context),
            length.visual > 0 && length.text < context ? "try a smaller budget or fewer images"
                                                       : "shorten the text")));
  if (!model.pool) return Done{};  // the device says by itself what does not fit
  const int64_t tokens =
      length.tokens() + std::min(room_after(model, length.tokens(), options), kAnswerAtOnce);
  const int64_t need = memory_need(model.config(), model.format, tokens, 4).kv_bytes;
  const int64_t free = available_memory_bytes();
  if (need > free)
    return because(
        Error::Reason::kMemory,
        failed(fmt::format(
            "keys and values of {} tokens need {} of memory, but {} is free; try a smaller budget",
            with_commas(tokens), human_bytes(need), human_bytes(free))));
  return Done{};
}

// Of an image: what is sure to be encoded before the model has read anything, and the first look
// that follows. How much of it crops will take is not known yet.
int64_t tokens_before_reading(const Looked& looked) {
  const int64_t look =
      looked.look == LookForm::kMixed && looked.rounds > 0 ? looked.look_tokens / looked.rounds : 0;
  return looked.choice.plan.tokens() + look;
}

void add_time(std::vector<StageTime>& times, const StageTime& time) {
  const auto known = std::find_if(times.begin(), times.end(),
                                  [&](const StageTime& t) { return t.stage == time.stage; });
  if (known == times.end())
    times.push_back(time);
  else
    known->ms += time.ms;
}

}  // namespace

std::vector<Message> with_system(std::span<const Message> messages, const std::string& system) {
  std::vector<Message> all;
  if (!system.empty()) all.push_back({"system", {{-1, system}}});
  all.insert(all.end(), messages.begin(), messages.end());
  return all;
}

Status check_ask(const Model& model, std::span<const Message> messages, const AskOptions& options) {
  if (messages.empty() || (messages.back().role != "user" && messages.back().role != "tool"))
    return bad_input("a conversation must end with a message of the user or of a tool");
  if (auto checked = check_all_json(messages, options); !checked) return checked;
  if (options.max_tokens < 1)
    return bad_input(fmt::format("max_tokens {}: give 1 or more", options.max_tokens));
  if (const auto maker = find_maker(options.plan); !maker) return maker.error();
  if (!options.balance.empty())
    if (const auto balance = find_balance(options.balance); !balance) return balance.error();
  if (!options.look.empty())
    if (const auto form = find_look(options.look); !form) return form.error();
  if (auto checked = check_attention(model, options); !checked) return checked;
  if (auto checked = check_forget(model, options); !checked) return checked;
  if (options.answers < 1 || options.answers > kMostAnswers)
    return bad_input(fmt::format("answers {}: give 1 to {}", options.answers, kMostAnswers));
  if (options.looks < 1) return bad_input(fmt::format("looks {}: give 1 or more", options.looks));
  if (!(options.sure >= 0 && options.sure <= 1))
    return bad_input(fmt::format("sure {}: give a probability from 0 to 1", options.sure));
  if (!(options.relook >= 0 && options.relook <= 1))
    return bad_input(fmt::format("relook {}: give a probability from 0 to 1", options.relook));
  for (const std::string& stop : options.stop)
    if (stop.empty()) return bad_input("an empty stop string would end every answer; leave it out");
  if (options.least_tokens > options.max_tokens)
    return bad_input(fmt::format("least_tokens {} is more than max_tokens {}; raise max_tokens",
                                 options.least_tokens, options.max_tokens));
  return check_sampling(sampling_of(options), model.config().text.vocab_size);
}

Status check_texts(const Model& model, const TextCount& text) {
  // 16 bytes for each of 262,144 tokens, the longest context.
  constexpr int64_t kMostTextBytes = int64_t{4} << 20;
  if (text.bytes() <= kMostTextBytes) return Done{};
  return because(
      Error::Reason::kContext,
      bad_input(fmt::format("the text of the conversation has {} bytes, over the limit of {}, but "
                            "the model's context is {} tokens; shorten it",
                            with_commas(text.bytes()), with_commas(kMostTextBytes),
                            with_commas(model.config().text.max_positions))));
}

Status check_likely(const Model& model, const AskOptions& options) {
  const TextConfig& text = model.config().text;
  const int64_t likely = std::clamp<int64_t>(options.likely_tokens, 0, text.vocab_size);
  const int64_t tokens =
      std::min<int64_t>(options.max_tokens, text.max_positions) * options.answers;
  if (likely * tokens <= kMostLikelyTokens) {
    const int64_t need = likely * tokens * kLikelyTokenBytes;
    if (need == 0 || need <= available_memory_bytes()) return Done{};
    return failed(fmt::format(
        "the {} most likely tokens of each of {} steps need {} of memory, but {} is free; ask for "
        "fewer, or for fewer steps",
        with_commas(likely), with_commas(tokens), human_bytes(need),
        human_bytes(available_memory_bytes())));
  }
  return bad_input(fmt::format(
      "the {} most likely tokens of each of {} steps are {}, but at most {} are kept; ask for {} "
      "of each step, or for {} steps",
      with_commas(likely), with_commas(tokens), with_commas(likely * tokens),
      with_commas(kMostLikelyTokens), with_commas(std::max<int64_t>(1, kMostLikelyTokens / tokens)),
      with_commas(std::max<int64_t>(1, kMostLikelyTokens / likely))));
}

Result<std::vector<Looked>> plan_images(SessionState& state, std::span<const int> images,
                                        const AskOptions& options) {
  if (!options.plans.empty() && options.plans.size() != state.views.size())
    return bad_input(fmt::format("{} plans were given for {} images; give one for each",
                                 options.plans.size(), state.views.size()));
  std::vector<Looked> looks;
  for (const int image : images) {
    const auto index = static_cast<size_t>(image);
    ImageView& view = state.views[index];
    auto looked = plan_view(*state.model, view, options, index);
    if (!looked) {
      const Error& error = looked.error();
      if (state.views.size() == 1) return error;
      return Error(error.kind, view.name + ": " + error.message);
    }
    looks.push_back(std::move(*looked));
  }
  return looks;
}

Status show_images(SessionState& state, std::span<const int> images, const AskOptions& options,
                   const std::function<bool()>& keep_going, std::span<Looked> looks) {
  for (size_t i = 0; i < images.size(); ++i)
    if (const auto shown = show_plan(*state.model, state.views[static_cast<size_t>(images[i])],
                                     options, keep_going, looks[i]);
        !shown)
      return shown.error();
  return Done{};
}

Status check_planned(const SessionState& state, std::span<const Message> messages,
                     std::span<const int> images, std::span<const Looked> looks,
                     const AskOptions& options, TextCount& text) {
  const Model& model = *state.model;
  PromptLength length;
  for (const Message& message : messages) {
    for (const Part& part : message.parts) {
      const auto shown = std::find(images.begin(), images.end(), part.image);
      if (shown != images.end())
        length.visual += tokens_before_reading(looks[static_cast<size_t>(shown - images.begin())]);
    }
  }
  if (is_append_only(looks, state.views, options))
    length.visual += past_tokens(messages, state.views);
  // The vocabulary may still be on its way. A prompt that fits by far need not wait for it: a byte
  // becomes three at most where text is normalised, a token holds one or more, and templates of
  // models add less than this.
  constexpr int64_t kTemplateTokens = 4096;
  const bool fits =
      length.visual + 3 * text.bytes() + kTemplateTokens < model.config().text.max_positions;
  if (text.must_be_counted() || !fits) {
    if (!text.tokens()) return text.tokens().error();
    length.text = *text.tokens();
  }
  return check_length(model, length, options);
}

Status check_context(const Model& model, const TokenPrompt& prompt, const AskOptions& options) {
  PromptLength length{.text = prompt.tokens()};
  for (const ImageRange& range : prompt.images) length.visual += range.end - range.begin;
  length.text -= length.visual;
  return check_length(model, length, options);
}

int64_t room_for_answer(const Model& model, const TokenPrompt& prompt, const AskOptions& options) {
  return room_after(model, prompt.tokens(), options);
}

bool leave_logits(const Model& model, const AskOptions& options) {
  return model.decoder.answers() && !options.on_logits && !may_look_again(options) &&
         !options.answer_attention && device_can_draw(sampling_of(options));
}

Result<bool> note_reading(const SessionState& state, const Reading& reading, int round, int rounds,
                          const AskOptions& options, std::span<Looked> looks, Trace& trace) {
  // What the first reading found in memory is of earlier questions; the rest is of this one.
  if (round == 0 || (round == 1 && !any_asks_model(looks)))
    trace.usage.kept_tokens = reading.kept_tokens;
  if (round == 0) return false;
  if (reading.left_logits) {
    const auto confidence = state.model->decoder.confidence(state.memory);
    if (!confidence) return confidence.error();
    trace.confidence = *confidence;
  } else {
    trace.confidence = confidence_of({reading.logits.data(), reading.logits.size()});
  }
  for (Looked& looked : looks) {
    if (static_cast<int>(looked.saccades.size()) != round) continue;
    looked.saccades.back().read_ms = reading.ms;
    looked.saccades.back().confidence = trace.confidence;
  }
  return round >= std::min(rounds, options.looks) || trace.confidence >= options.sure;
}

void report_looks(const SessionState& state, std::span<const Message> messages,
                  const TokenPrompt& prompt, std::span<const int> images, std::vector<Looked> looks,
                  const AttentionReadout& attention, Trace& trace) {
  trace.prompt = prompt.text;
  trace.prompt_ids = prompt.text_ids;
  count_tokens(trace.usage, prompt, state.views);
  for (size_t i = 0; i < looks.size(); ++i) {
    const ImageView& view = state.views[static_cast<size_t>(images[i])];
    looks[i].settings.options.question = question_of(messages);
    Look& look = trace.looks.emplace_back(report(*state.model, view, std::move(looks[i])));
    look.attention = attention_to(prompt, images[i], look.plan.cells.size(), attention.key_begin,
                                  attention.mass);
    // What an answer looked at half-way is none of the prompt's.
    if (!look.attention.empty()) look.attention.resize(look.plan.cells.size());
  }
}

void report_attended(const TokenPrompt& prompt, std::span<const int> images,
                     std::span<const Look> looks, const AttentionReadout& of_prompt,
                     const std::vector<std::vector<float>>& attended, Answer& answer) {
  const size_t tokens = std::min(attended.size(), answer.tokens.size());
  for (size_t i = 0; i < tokens; ++i)
    for (size_t k = 0; k < looks.size(); ++k)
      answer.tokens[i].attention.push_back(attention_to(
          prompt, images[k], looks[k].plan.cells.size(), of_prompt.key_begin, attended[i]));
}

void finish_trace(const SessionState& state, const Stopwatch& watch, Trace& trace) {
  // Stages of the front end, summed over images and looks, then those of the whole.
  std::vector<StageTime> times;
  for (const Look& look : trace.looks)
    for (const StageTime& time : look.times) add_time(times, time);
  for (const StageTime& time : trace.times) add_time(times, time);
  for (const StageTime& time : watch.laps()) add_time(times, time);
  trace.times = std::move(times);
  trace.weights_bytes = state.model->weights_bytes();
  trace.kv_bytes = static_cast<int64_t>(state.memory.bytes());
  trace.peak_bytes = peak_bytes();
  if (state.model->pool) trace.usage.memory = state.model->pool->usage();
}

}  // namespace fovea
