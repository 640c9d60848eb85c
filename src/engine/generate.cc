// SPDX-License-Identifier: Apache-2.0
#include "engine/generate.h"

#include <algorithm>
#include <utility>

#include "engine/answer_parts.h"
#include "language/positions.h"
#include "language/stop_strings.h"
#include "language/tokenizer.h"

namespace fovea {
namespace {

// The text of an answer on its way out: ids become text, stop strings end it.
class Output {
 public:
  Output(const Tokenizer& tokenizer, StopStrings stops, const OnText& on_text, Answer& answer)
      : stream_(tokenizer), stops_(std::move(stops)), on_text_(on_text), answer_(answer) {}

  // False where the answer ends with this token, for the reason in answer.finish.
  bool add(int id) {
    if (!show(stops_.add(stream_.add(id)))) return false;
    if (stops_.stopped()) answer_.finish = "stop";
    return !stops_.stopped();
  }
  void finish() {
    if (answer_.finish == "stop" || answer_.finish == "cancelled") return;
    std::string rest = stops_.add(stream_.finish());
    if (!stops_.stopped()) rest += stops_.finish();
    show(rest);
  }

 private:
  bool show(const std::string& piece) {
    answer_.text += piece;
    if (!on_text_ || on_text_(piece)) return true;
    answer_.finish = "cancelled";
    return false;
  }

  TextStream stream_;
  StopStrings stops_;
  const OnText& on_text_;
  Answer& answer_;
};

AnswerToken answer_token(const Tokenizer& tokenizer, const SampledToken& sampled) {
  AnswerToken token;
  token.id = sampled.id;
  token.token = tokenizer.bytes(sampled.id);
  token.logprob = sampled.logprob;
  for (const TokenChance& chance : sampled.most_likely)
    token.likely.push_back({chance.id, std::string(tokenizer.bytes(chance.id)), chance.logprob});
  return token;
}

}  // namespace

SamplingOptions sampling_of(const AskOptions& options) {
  return {.temperature = options.temperature,
          .top_k = options.top_k,
          .top_p = options.top_p,
          .min_p = options.min_p,
          .repetition_penalty = options.repetition_penalty,
          .seed = options.seed,
          .most_likely = options.likely_tokens};
}

Status generate(SessionState& state, const TokenPrompt& prompt, const Buffer<float>& logits,
                const AskOptions& options, const OnText& on_text, Stopwatch& watch,
                Answer& answer) {
  const Model& model = *state.model;
  const Tokenizer& tokenizer = model.words.get()->tokenizer;
  auto sampler = Sampler::make(sampling_of(options), model.config().text.vocab_size);
  if (!sampler) return sampler.error();
  sampler->add_context(prompt.ids);
  auto stops = StopStrings::make(options.stop);
  if (!stops) return stops.error();
  Output output(tokenizer, std::move(*stops), on_text, answer);
  const std::vector<int>& ends = model.config().eos_token_ids;
  const int64_t most = room_for_answer(model, prompt, options);

  answer.finish = "length";
  Buffer<float> next;
  const Buffer<float>* present = &logits;
  for (int64_t count = 0; count < most; ++count) {
    if (count > 0) {
      const int id = answer.tokens.back().id;
      const TokenPosition at = text_position(prompt.next_position + static_cast<float>(count - 1));
      next = model.decoder.decode(*model.threads, {{&id, 1}, {&at, 1}, {}}, state.memory);
      if (next.empty()) return model.worked().error();
      state.kept.push_back({id, -1, 0, 0, at});
      present = &next;
    }
    const auto sampled = sampler->sample({present->data(), present->size()});
    if (!sampled) return sampled.error();
    answer.tokens.push_back(answer_token(tokenizer, *sampled));
    if (count == 0) {
      watch.lap("sample");
      answer.trace.times.push_back({"first_token", watch.total_ms()});
    }
    if (!options.ignore_end && std::find(ends.begin(), ends.end(), sampled->id) != ends.end()) {
      answer.finish = "end";
      break;
    }
    if (!output.add(sampled->id)) break;
  }
  output.finish();
  answer.trace.usage.answer_tokens = static_cast<int64_t>(answer.tokens.size());
  watch.lap("generate");
  return Done{};
}

}  // namespace fovea
