// SPDX-License-Identifier: Apache-2.0
#include "engine/generate.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/answer_parts.h"
#include "language/device_decoder.h"
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

// Draws the tokens of an answer, reading each before the next.
class TokenSource {
 public:
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  virtual ~TokenSource() = default;
  virtual Result<SampledToken> next() = 0;
};

// By the CPU's sampler, from logits in its memory.
class SampledSource : public TokenSource {
 public:
  SampledSource(SessionState& state, const TokenPrompt& prompt, const Buffer<float>& logits,
                Sampler sampler, const AskOptions& options)
      : state_(state),
        prompt_(prompt),
        present_(&logits),
        sampler_(std::move(sampler)),
        on_logits_(options.on_logits) {}

  Result<SampledToken> next() override {
    if (count_ > 0) {
      const Model& model = *state_.model;
      const TokenPosition at =
          text_position(prompt_.next_position + static_cast<float>(count_ - 1));
      next_ = model.decoder.decode(*model.threads, {{&last_, 1}, {&at, 1}, {}}, state_.memory);
      if (next_.empty()) return model.worked().error();
      present_ = &next_;
    }
    if (on_logits_) on_logits_({present_->data(), present_->size()});
    auto sampled = sampler_.sample({present_->data(), present_->size()});
    if (sampled) last_ = sampled->id;
    ++count_;
    return sampled;
  }

 private:
  SessionState& state_;
  const TokenPrompt& prompt_;
  const Buffer<float>* present_;
  Buffer<float> next_;
  Sampler sampler_;
  const std::function<void(std::span<const float>)>& on_logits_;
  int last_ = 0;
  int64_t count_ = 0;
};

// By the device itself.
class DeviceSource : public TokenSource {
 public:
  DeviceSource(SessionState& state, std::unique_ptr<DeviceAnswer> answer)
      : state_(state), answer_(std::move(answer)) {}
  Result<SampledToken> next() override { return answer_->next(state_.memory); }

 private:
  SessionState& state_;
  std::unique_ptr<DeviceAnswer> answer_;
};

Result<std::unique_ptr<TokenSource>> source_of(SessionState& state, const TokenPrompt& prompt,
                                               const Buffer<float>& logits,
                                               const AskOptions& options, int64_t most_tokens) {
  const Model& model = *state.model;
  if (leave_logits(model, options)) {
    auto answer = model.decoder.answer(
        state.memory, {sampling_of(options), prompt.ids, prompt.next_position, most_tokens});
    if (!answer) return answer.error();
    return std::unique_ptr<TokenSource>(std::make_unique<DeviceSource>(state, std::move(*answer)));
  }
  auto sampler = Sampler::make(sampling_of(options), model.config().text.vocab_size);
  if (!sampler) return sampler.error();
  sampler->add_context(prompt.ids);
  return std::unique_ptr<TokenSource>(
      std::make_unique<SampledSource>(state, prompt, logits, std::move(*sampler), options));
}

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
  auto stops = StopStrings::make(options.stop);
  if (!stops) return stops.error();
  Output output(tokenizer, std::move(*stops), on_text, answer);
  const std::vector<int>& ends = model.config().eos_token_ids;
  const int64_t most = room_for_answer(model, prompt, options);
  auto source = source_of(state, prompt, logits, options, most);
  if (!source) return source.error();

  answer.finish = "length";
  for (int64_t count = 0; count < most; ++count) {
    const auto sampled = (*source)->next();
    if (!sampled) return sampled.error();
    if (count > 0) {
      const TokenPosition at = text_position(prompt.next_position + static_cast<float>(count - 1));
      state.kept.push_back({answer.tokens.back().id, -1, 0, 0, at});
    }
    answer.tokens.push_back(answer_token(tokenizer, *sampled));
    watch.lap(count == 0 ? "sample" : "generate");
    answer.tokens.back().ms = watch.laps().back().ms;
    if (count == 0) answer.trace.times.push_back({"first_token", watch.total_ms()});
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
