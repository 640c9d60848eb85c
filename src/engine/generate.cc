// SPDX-License-Identifier: Apache-2.0
#include "engine/generate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/answer_parts.h"
#include "language/device_decoder.h"
#include "language/positions.h"
#include "language/stop_strings.h"
#include "language/tokenizer.h"

namespace fovea {
namespace {

// By the CPU's sampler, from logits in its memory.
class SampledGenerator : public Generator {
 public:
  SampledGenerator(const GeneratorInput& input, Buffer<float> logits, Sampler sampler,
                   Answer& answer)
      : Generator(input, answer), sampler_(std::move(sampler)) {
    step_.memory = &input.state.memory;
    step_.options.keep_going = input.keep_going;
    step_.options.attention = input.state.text_attention;
    if (!step_.options.attention.is_dense()) images_ = visual_ranges(input.prompt);
    step_.options.images = images_;
    step_.wants_logits = true;
    step_.logits = std::move(logits);
    if (!input.options.answer_attention || input.attention.last_mass.empty()) return;
    if (input.state.memory.forgotten_tokens > 0) return;  // a row is no token's any more
    const auto keys = static_cast<int64_t>(input.attention.last_mass.size());
    most_attended_ = kMostAnswerAttention / input.options.answers / keys;
    readout_ = input.attention;
    readout_.query_begin = 0;
    readout_.query_end = 1;
    readout_.wants_last = false;
    readout_.mass = readout_.last_mass;  // what the first token is drawn from
  }

  ForwardRequest* step() override {
    step_.options.readout = count_ < most_attended_ ? &readout_ : nullptr;
    at_ = text_position(input_.prompt.next_position + static_cast<float>(count_ - 1));
    step_.run = {{&last_, 1}, {&at_, 1}, {}};
    return &step_;
  }

  std::span<const float> logits() const override {
    if (!step_.status || step_.stopped) return {};
    return {step_.logits.data(), step_.logits.size()};
  }

  ForwardRequest* read(AddedTokens added) override {
    const TokenPrompt& prompt = input_.prompt;
    DecoderMemory& memory = input_.state.memory;
    memory.truncate(memory.tokens() - 1);
    // The prompt's last token is among what the session holds; one of the answer is not yet.
    if (count_ == 0) input_.state.kept.pop_back();
    const size_t rows = std::min(input_.state.gaze_rows.size(), input_.state.kept.size());
    input_.state.gaze_rows.resize(rows);
    added_ = std::move(added);
    added_.ids.push_back(count_ == 0 ? prompt.ids.back() : last_);
    added_.positions.push_back(
        count_ == 0 ? prompt.keys.back().position
                    : text_position(prompt.next_position + static_cast<float>(count_ - 1)));
    if (count_ == 0) added_.keys.push_back(prompt.keys.back());
    most_attended_ = std::min(most_attended_, count_);  // keys are no longer where they were
    step_.options.readout = nullptr;
    step_.run = {added_.ids, added_.positions, added_.visual};
    return &step_;
  }

 private:
  Result<std::optional<SampledToken>> next() override {
    if (!step_.status) return step_.status.error();
    if (step_.stopped) return std::optional<SampledToken>();
    if (auto intact = input_.state.model->intact(); !intact) return intact.error();
    input_.state.kept.insert(input_.state.kept.end(), added_.keys.begin(), added_.keys.end());
    added_ = {};
    const std::span<const float> logits(step_.logits.data(), step_.logits.size());
    if (input_.options.on_logits) input_.options.on_logits(logits);
    auto sampled = sampler_.sample(logits);
    if (!sampled) return sampled.error();
    if (count_ < most_attended_) attended_.push_back(readout_.mass);
    last_ = sampled->id;
    ++count_;
    return std::optional(std::move(*sampled));
  }

  ForwardRequest step_;             // its logits serve from token to token
  std::vector<TokenRange> images_;  // where attention is not dense
  TokenPosition at_;
  AddedTokens added_;  // that the step under way reads
  Sampler sampler_;
  AttentionReadout readout_;
  int64_t most_attended_ = 0;  // tokens of which it is kept
  int last_ = 0;
  int64_t count_ = 0;
};

// By the device itself.
class DeviceGenerator : public Generator {
 public:
  DeviceGenerator(const GeneratorInput& input, std::unique_ptr<DeviceAnswer> drawn, Answer& answer)
      : Generator(input, answer), drawn_(std::move(drawn)) {}
  ForwardRequest* step() override { return nullptr; }
  DeviceAnswer* on_device() override { return drawn_.get(); }
  ForwardRequest* read(AddedTokens) override { return nullptr; }  // it has no logits to ask for it

 private:
  Result<std::optional<SampledToken>> next() override {
    if (!input_.keep_going()) return std::optional<SampledToken>();
    auto sampled = drawn_->next();
    if (!sampled) return sampled.error();
    return std::optional(std::move(*sampled));
  }

  std::unique_ptr<DeviceAnswer> drawn_;
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

SamplingOptions sampling_of(const AskOptions& options, int answer) {
  return {.temperature = options.temperature,
          .top_k = options.top_k,
          .top_p = options.top_p,
          .min_p = options.min_p,
          .repetition_penalty = options.repetition_penalty,
          .frequency_penalty = options.frequency_penalty,
          .presence_penalty = options.presence_penalty,
          .logit_bias = options.logit_bias,
          .least_tokens = options.least_tokens,
          .mask = options.mask,
          .seed = options.seed + static_cast<uint64_t>(answer),
          .most_likely = options.likely_tokens};
}

// The text of an answer on its way out: ids become text, stop strings end it.
class Generator::Output {
 public:
  Output(const Tokenizer& tokenizer, StopStrings stops,
         const std::function<bool(std::string_view)>& on_text, Answer& answer)
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
    if (piece.empty() || !on_text_ || on_text_(piece)) return true;
    answer_.finish = "cancelled";
    return false;
  }

  TextStream stream_;
  StopStrings stops_;
  const std::function<bool(std::string_view)>& on_text_;
  Answer& answer_;
};

Generator::Generator(const GeneratorInput& input, Answer& answer)
    : input_(input),
      answer_(answer),
      most_tokens_(room_for_answer(*input.state.model, input.prompt, input.options)) {}
Generator::~Generator() = default;

Result<std::unique_ptr<Generator>> Generator::start(const GeneratorInput& input,
                                                    Buffer<float> logits, Answer& answer) {
  const Model& model = *input.state.model;
  auto stops = StopStrings::make(input.options.stop);
  if (!stops) return stops.error();
  std::unique_ptr<Generator> generator;
  if (leave_logits(model, input.options)) {
    auto drawn = model.decoder.answer(
        input.state.memory,
        {sampling_of(input.options, input.answer), input.prompt.ids, input.prompt.next_position,
         room_for_answer(model, input.prompt, input.options)});
    if (!drawn) return drawn.error();
    generator = std::make_unique<DeviceGenerator>(input, std::move(*drawn), answer);
  } else {
    auto sampler = Sampler::make(sampling_of(input.options, input.answer),
                                 model.config().text.vocab_size, model.config().eos_token_ids);
    if (!sampler) return sampler.error();
    sampler->add_context(input.prompt.ids);
    generator =
        std::make_unique<SampledGenerator>(input, std::move(logits), std::move(*sampler), answer);
  }
  generator->output_ = std::make_unique<Output>(model.words.get()->tokenizer, std::move(*stops),
                                                input.on_text, answer);
  answer.finish = "length";
  return generator;
}

Result<bool> Generator::draw() {
  const Model& model = *input_.state.model;
  const auto drawn = next();
  if (!drawn) return drawn.error();
  const std::optional<SampledToken>& sampled = *drawn;
  if (!sampled) {
    answer_.finish = "cancelled";
    finish();
    return false;
  }
  const size_t count = answer_.tokens.size();
  if (count > 0) {
    const TokenPosition at =
        text_position(input_.prompt.next_position + static_cast<float>(count - 1));
    input_.state.kept.push_back({answer_.tokens.back().id, -1, 0, 0, at});
  }
  answer_.tokens.push_back(answer_token(model.words.get()->tokenizer, *sampled));
  input_.watch.lap(count == 0 ? "sample" : "generate");
  answer_.tokens.back().ms = input_.watch.laps().back().ms;
  if (count == 0) answer_.trace.times.push_back({"first_token", input_.watch.total_ms()});
  if (input_.on_token) input_.on_token(answer_.tokens.back());
  const std::vector<int>& ends = model.config().eos_token_ids;
  bool goes_on = true;
  if (!input_.options.ignore_end &&
      std::find(ends.begin(), ends.end(), sampled->id) != ends.end()) {
    answer_.finish = "end";
    goes_on = false;
  } else {
    goes_on =
        output_->add(sampled->id) && static_cast<int64_t>(answer_.tokens.size()) < most_tokens_;
  }
  if (!goes_on) finish();
  return goes_on;
}

void Generator::finish() {
  output_->finish();
  answer_.trace.usage.answer_tokens = static_cast<int64_t>(answer_.tokens.size());
  input_.watch.lap("generate");
}

}  // namespace fovea
