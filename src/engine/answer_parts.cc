// SPDX-License-Identifier: Apache-2.0
#include "engine/answer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "engine/generate.h"
#include "engine/look.h"
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
std::string text_of(const Turn& turn) {
  std::string text;
  for (const Part& part : turn.parts)
    if (part.image < 0) text += (text.empty() ? "" : " ") + part.text;
  return text;
}

// To each cell of an image's plan, where it is shown first.
std::vector<float> attention_to(const TokenPrompt& prompt, int image, size_t cells,
                                const AttentionReadout& readout) {
  std::vector<float> attention;
  for (const ImageRange& range : prompt.images) {
    if (range.image != image || readout.mass.empty() || attention.size() >= cells) continue;
    const auto begin = readout.mass.begin() - readout.key_begin;
    attention.insert(attention.end(), begin + range.begin, begin + range.end);
  }
  return attention;
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
  if (!options.look.empty() && options.look != "mixed" && options.look != "crops" &&
      options.look != "off")
    return bad_input(fmt::format("look {}: use mixed, crops or off", in_quotes(options.look)));
  if (options.looks < 1) return bad_input(fmt::format("looks {}: give 1 or more", options.looks));
  if (!(options.sure >= 0 && options.sure <= 1))
    return bad_input(fmt::format("sure {}: give a probability from 0 to 1", options.sure));
  for (const std::string& stop : options.stop)
    if (stop.empty()) return bad_input("an empty stop string would end every answer; leave it out");
  return check_sampling(sampling_of(options));
}

Result<std::vector<Looked>> glance_at_images(SessionState& state, std::span<const int> images,
                                             const AskOptions& options,
                                             const std::function<bool()>& keep_going) {
  std::vector<Looked> looks;
  for (const int image : images) {
    const auto index = static_cast<size_t>(image);
    ImageView& view = state.views[index];
    auto looked = glance_at(*state.model, view, options, index, keep_going);
    if (!looked) {
      Error error = looked.error();
      if (state.views.size() > 1) error.message = view.name + ": " + error.message;
      return error;
    }
    looks.push_back(std::move(*looked));
  }
  return looks;
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
  if (model.device) return Done{};  // it says by itself what does not fit
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

bool leave_logits(const Model& model, const AskOptions& options) {
  return model.decoder.answers() && options.likely_tokens == 0 && !options.on_logits;
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
  return round >= rounds || trace.confidence >= options.sure;
}

void report_looks(const SessionState& state, std::span<const Turn> turns, const TokenPrompt& prompt,
                  std::span<const int> images, std::vector<Looked> looks,
                  const AttentionReadout& attention, Trace& trace) {
  trace.prompt = prompt.text;
  trace.prompt_ids = prompt.text_ids;
  count_tokens(trace.usage, prompt, state.views);
  for (size_t i = 0; i < looks.size(); ++i) {
    const ImageView& view = state.views[static_cast<size_t>(images[i])];
    looks[i].options.question = text_of(turns.back());
    Look& look = trace.looks.emplace_back(report(*state.model, view, std::move(looks[i])));
    look.attention = attention_to(prompt, images[i], look.plan.cells.size(), attention);
  }
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
}

}  // namespace fovea
