// SPDX-License-Identifier: Apache-2.0
// The spine of asking: one call per room, in order.
#include <utility>

#include "base/stopwatch.h"
#include "engine/answer_parts.h"
#include "engine/generate.h"
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

  Stopwatch watch;
  std::vector<Looked> looks;
  for (const int image : *images) {
    auto looked = look_at_image(model, state.views, image, options, keep_going);
    if (!looked) return looked.error();
    looks.push_back(std::move(*looked));
  }
  watch.lap("look");
  if (!model.words.get()) return model.words.get().error();

  Answer answer;
  answer.finish = "cancelled";
  if (keep_going()) {
    auto prompt = make_token_prompt(model, all, state.views);
    if (!prompt) return prompt.error();
    if (auto fits = check_context(model, *prompt, options); !fits) return fits.error();
    answer.trace.prompt = prompt->text;
    answer.trace.prompt_ids = prompt->text_ids;
    count_tokens(answer.trace.usage, *prompt, state.views);
    watch.lap("prompt");

    AttentionReadout readout = readout_of(model, *prompt, options.attention);
    const auto logits =
        prefill(state, *prompt, options, keep_going, readout, answer.trace.usage.kept_tokens);
    watch.lap("prefill");
    if (auto sound = model.sound(); !sound) return sound.error();
    if (!logits.empty()) {
      if (auto status = generate(state, *prompt, logits, options, on_text, watch, answer); !status)
        return status.error();
    }
    for (size_t i = 0; i < looks.size(); ++i)
      answer.trace.looks.push_back(
          report_look(state, *prompt, (*images)[i], std::move(looks[i]), readout));
  }
  finish_trace(state, watch, answer.trace);
  return answer;
}

}  // namespace fovea
