// SPDX-License-Identifier: Apache-2.0
#include "fovea/model_flags.h"

namespace fovea::app {
namespace {

double time_of(const Trace& trace, const std::string& stage) {
  for (const StageTime& time : trace.times)
    if (time.stage == stage) return time.ms;
  return 0;
}

}  // namespace

void print_stats(const Answer& answer, double load_ms) {
  const Trace& trace = answer.trace;
  const Usage& usage = trace.usage;
  const double generate_ms = time_of(trace, "generate");
  tell(
      "prompt: {} tokens of text, {} of images (of {}), {} kept from before\n"
      "times: load {:.0f} ms, look {:.0f} (tower {:.0f}), read {:.0f}, prefill {:.0f}, first token "
      "{:.0f}",
      usage.text_tokens, usage.image_tokens, usage.image_tokens_full, usage.kept_tokens, load_ms,
      time_of(trace, "look"), time_of(trace, "tower"), time_of(trace, "read"),
      time_of(trace, "prefill"), time_of(trace, "first_token"));
  if (usage.answer_tokens > 1 && generate_ms > 0)
    tell(", then {:.1f} tokens/s",
         1000.0 * static_cast<double>(usage.answer_tokens - 1) / generate_ms);
  size_t looks = 0;
  for (const Look& look : trace.looks) looks += look.saccades.size();
  const double mb = 1e-6;
  tell(
      "\nanswer: {} tokens, ended by {}, {:.0f} % sure of the first after {} look{}\nmemory: "
      "{:.0f} MB of weights, {:.0f} MB of keys "
      "and values, peak {:.0f} MB\n",
      usage.answer_tokens, answer.finish, 100 * trace.confidence, looks, looks == 1 ? "" : "s",
      static_cast<double>(trace.weights_bytes) * mb, static_cast<double>(trace.kv_bytes) * mb,
      static_cast<double>(trace.peak_bytes) * mb);
  if (usage.visual_keys > 0)
    tell("forgot: {} of {} keys of visual tokens stayed, {:.2f} of {:.2f} MB of keys and values\n",
         usage.visual_keys_kept, usage.visual_keys, static_cast<double>(usage.kv_bytes_after) * mb,
         static_cast<double>(usage.kv_bytes_before) * mb);
}

}  // namespace fovea::app
