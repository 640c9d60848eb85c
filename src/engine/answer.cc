// SPDX-License-Identifier: Apache-2.0
// The spine of asking: one call per room, in order.
#include <optional>
#include <utility>

#include "base/stopwatch.h"
#include "engine/answer_parts.h"
#include "engine/generate.h"
#include "engine/look.h"
#include "engine/read.h"
#include "engine/session.h"

namespace fovea {

Result<Answer> Session::ask(std::span<const Turn> turns, const AskOptions& options,
                            const OnText& on_text) {
  SessionState& state = *state_;
  const Model& model = *state.model;
  const std::vector<Turn> all = with_system(turns, options.system);
  if (auto checked = check_ask(all, options); !checked) return checked.error();
  const auto images = images_of(all, state.views.size());
  if (!images) return images.error();
  bool cancelled = false;
  const auto keep_going = [&] { return !(cancelled = cancelled || (on_text && !on_text(""))); };

  Stopwatch watch = model.stopwatch();
  auto looks = glance_at_images(state, *images, options, keep_going);
  if (!looks) return looks.error();
  if (auto worked = model.worked(); !worked) return worked.error();
  watch.lap("look");
  if (!model.words.get()) return model.words.get().error();

  Answer answer;
  answer.finish = "cancelled";
  std::optional<TokenPrompt> prompt;
  Reading reading;
  // Round 0 reads the question over the glances alone, where the model is to say what it points at;
  // each further round takes a look and reads the prompt with it.
  const int rounds = rounds_of(*looks);
  const bool asks_model = any_asks_model(*looks);
  for (int round = asks_model ? 0 : 1; keep_going(); ++round) {
    if (round > 0 && rounds > 0) {
      const bool taken = take_looks(state, *images, *looks, round, prompt, reading, keep_going);
      if (auto worked = model.worked(); !worked) return worked.error();
      if (!taken) break;
      watch.lap("look");
    }
    auto written = make_token_prompt(model, all, state.views);
    if (!written) return written.error();
    if (auto fits = check_context(model, *written, options); !fits) return fits.error();
    prompt = std::move(*written);
    watch.lap("prompt");
    reading = read_prompt(state, *prompt, options,
                          {.answer = round > 0,
                           .couple = asks_model && round < rounds,
                           .attention = options.attention && round > 0,
                           .leave = leave_logits(model, options)},
                          keep_going);
    watch.lap(round > 0 ? "prefill" : "read");
    if (auto worked = model.worked(); !worked) return worked.error();
    if (!reading.done) break;
    const auto enough = note_reading(state, reading, round, rounds, options, *looks, answer.trace);
    if (!enough) return enough.error();
    if (*enough) break;
  }
  if ((!reading.logits.empty() || reading.left_logits) && !cancelled) {
    if (auto sound = model.sound(); !sound) return sound.error();
    auto status = generate(state, *prompt, reading.logits, options, on_text, watch, answer);
    if (!status) return status.error();
  }
  if (prompt)
    report_looks(state, all, *prompt, *images, std::move(*looks), reading.attention, answer.trace);
  finish_trace(state, watch, answer.trace);
  return answer;
}

}  // namespace fovea
