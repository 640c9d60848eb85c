// SPDX-License-Identifier: Apache-2.0
#include "engine/answer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "engine/generate.h"
#include "weights/memory_need.h"

namespace fovea {
namespace {

// The most this process ever held, mapped files included.
int64_t peak_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

// Memory for an answer is taken as it grows beyond this.
constexpr int64_t kAnswerAtOnce = 1024;

}  // namespace

std::vector<Turn> with_system(std::span<const Turn> turns, const std::string& system) {
  std::vector<Turn> all;
  if (!system.empty()) all.push_back({"system", {{-1, system}}});
  all.insert(all.end(), turns.begin(), turns.end());
  return all;
}

Status check_ask(std::span<const Turn> turns, const AskOptions& options) {
  if (turns.empty() || turns.back().role != "user")
    return bad_input("a conversation must end with a turn of the user");
  if (options.max_tokens < 1)
    return bad_input(fmt::format("max_tokens {}: give 1 or more", options.max_tokens));
  for (const std::string& stop : options.stop)
    if (stop.empty()) return bad_input("an empty stop string would end every answer; leave it out");
  return check_sampling(sampling_of(options));
}

Result<Looked> look_at_image(const Model& model, std::vector<ImageView>& views, int image,
                             const AskOptions& options, const std::function<bool()>& keep_going) {
  const auto index = static_cast<size_t>(image);
  std::span<const Point> fixations;
  if (index < options.fixations.size()) fixations = options.fixations[index];
  const bool given = index < options.plans.size() && !options.plans[index].cells.empty();
  ImageView& view = views[index];
  auto looked =
      look(model, view, options, fixations, given ? &options.plans[index] : nullptr, keep_going);
  if (looked) return looked;
  Error error = looked.error();
  if (views.size() > 1) error.message = view.name + ": " + error.message;
  return error;
}

Status check_context(const Model& model, const TokenPrompt& prompt, const AskOptions& options) {
  const int64_t context = model.config().text.max_positions;
  int64_t visual = 0;
  for (const ImageRange& range : prompt.images) visual += range.end - range.begin;
  if (prompt.tokens() >= context)
    return bad_input(fmt::format(
        "the prompt has {} tokens ({} of text, {} of images), but the model's context is {}; {}",
        with_commas(prompt.tokens()), with_commas(prompt.tokens() - visual), with_commas(visual),
        with_commas(context),
        visual > 0 ? "try a smaller budget or fewer images" : "shorten the question"));
  const int64_t tokens =
      prompt.tokens() + std::min(room_for_answer(model, prompt, options), kAnswerAtOnce);
  MemoryNeed need = memory_need(model.config(), model.format, tokens, 4);
  if (need.kv_bytes > available_memory_bytes())
    return failed(fmt::format(
        "keys and values of {} tokens need {} of memory, but {} is free; try "
        "a smaller budget",
        with_commas(tokens), human_bytes(need.kv_bytes), human_bytes(available_memory_bytes())));
  return Done{};
}

int64_t room_for_answer(const Model& model, const TokenPrompt& prompt, const AskOptions& options) {
  return std::min<int64_t>(options.max_tokens, model.config().text.max_positions - prompt.tokens());
}

void count_tokens(Usage& usage, const TokenPrompt& prompt, std::span<const ImageView> views) {
  for (const ImageRange& range : prompt.images) {
    usage.image_tokens += range.end - range.begin;
    usage.image_tokens_full +=
        grid_at(views[static_cast<size_t>(range.image)].prepared->canvas(), 0).cells();
  }
  usage.patches = usage.image_tokens * kPatchesPerCell;
  usage.text_tokens = prompt.tokens() - usage.image_tokens;
}

AttentionReadout readout_of(const Model& model, const TokenPrompt& prompt, bool wanted) {
  AttentionReadout readout;
  if (!wanted || prompt.images.empty()) return readout;
  // The middle third of the layers: the first ones look nearby, the last ones at what comes next.
  const int layers = model.config().text.num_layers;
  for (int layer = layers / 3; layer < std::max(layers / 3 + 1, 2 * layers / 3); ++layer)
    readout.layers.push_back(layer);
  readout.key_begin = prompt.images.front().begin;
  readout.key_end = prompt.images.back().end;
  readout.query_begin =
      static_cast<size_t>(readout.key_end);  // counted in the prompt until prefill
  readout.query_end = prompt.ids.size();
  return readout;
}

Buffer<float> prefill(SessionState& state, const TokenPrompt& prompt, const AskOptions& options,
                      const std::function<bool()>& keep_going, AttentionReadout& readout,
                      int64_t& kept) {
  const Model& model = *state.model;
  const auto differs =
      std::mismatch(state.kept.begin(), state.kept.end(), prompt.keys.begin(), prompt.keys.end());
  // The last token is computed always: its logits are not kept. So are tokens to be read out.
  kept = std::min<int64_t>(differs.first - state.kept.begin(), prompt.tokens() - 1);
  const bool read = !readout.layers.empty();
  if (read) kept = std::min(kept, static_cast<int64_t>(readout.query_begin));
  state.memory.truncate(kept);
  state.kept.resize(static_cast<size_t>(kept));
  state.memory.reserve(prompt.tokens() +
                       std::min(room_for_answer(model, prompt, options), kAnswerAtOnce));

  const RunStorage part = run_from(prompt, kept);
  DecodeOptions decode;
  decode.keep_going = keep_going;
  if (read) {
    readout.query_begin -= static_cast<size_t>(kept);
    readout.query_end -= static_cast<size_t>(kept);
    decode.readout = &readout;
  }
  Buffer<float> logits = model.decoder.decode(*model.threads, part.run, state.memory, decode);
  if (!logits.empty()) state.kept = prompt.keys;
  return logits;
}

Look report_look(const SessionState& state, const TokenPrompt& prompt, int image, Looked looked,
                 const AttentionReadout& readout) {
  Look look = report(*state.model, state.views[static_cast<size_t>(image)], std::move(looked));
  for (const ImageRange& range : prompt.images) {
    if (range.image != image || readout.mass.empty()) continue;
    const auto begin = readout.mass.begin() - readout.key_begin;
    look.attention.assign(begin + range.begin, begin + range.end);
    break;
  }
  return look;
}

void finish_trace(const SessionState& state, const Stopwatch& watch, Trace& trace) {
  // Stages of the front end, summed over images, then those of the whole.
  for (const Look& look : trace.looks) {
    for (const StageTime& time : look.times) {
      const auto known = std::find_if(trace.times.begin(), trace.times.end(),
                                      [&](const StageTime& t) { return t.stage == time.stage; });
      if (known == trace.times.end())
        trace.times.push_back(time);
      else
        known->ms += time.ms;
    }
  }
  for (const StageTime& time : watch.laps()) trace.times.push_back(time);
  trace.weights_bytes = state.model->weights_bytes();
  trace.kv_bytes = static_cast<int64_t>(state.memory.bytes());
  trace.peak_bytes = peak_bytes();
}

}  // namespace fovea
