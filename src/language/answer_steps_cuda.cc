// SPDX-License-Identifier: Apache-2.0
#include "language/answer_steps_cuda.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace fovea {
namespace {

Error fault_of(ChoiceFault fault) {
  return failed(fault == ChoiceFault::kNotFinite
                    ? "choosing a token: a score of the model is not a number or infinite; "
                      "its weights may be damaged, or try device cpu"
                    : "choosing a token: the model excludes all tokens; its weights may be "
                      "damaged, or try device cpu");
}

bool has_penalty(const AnswerState& answer) { return answer.sampling.repetition_penalty != 1; }

// Keys that the next step sees, rounded up so that graphs serve while a sequence grows.
int rounded_keys(const AnswerState& answer) {
  const int64_t keys = std::max<int64_t>(answer.prompt_tokens + answer.drawn, 256);
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(keys)));
}

}  // namespace

AnswerSteps::~AnswerSteps() {
  if (open_) (void)stream().wait();  // what is still being drawn writes to out_
  for (cudaEvent_t event : events_)
    if (event != nullptr) cudaEventDestroy(event);
}

Stream& AnswerSteps::stream() const { return decoder_.device_->stream(); }
int64_t AnswerSteps::ahead() const { return decoder_.device_->on_stage ? 1 : 2; }

template <class T>
Status AnswerSteps::put(const T& value, DeviceMemory<T>& to, int row) {
  return decoder_.staging_.upload(stream(), std::as_bytes(std::span(&value, 1)), to.data() + row);
}

Status AnswerSteps::open() {
  if (open_) return Done{};
  constexpr size_t kAll = kRows + 1;
  const TextConfig& config = decoder_.config_;
  const auto vocab = static_cast<size_t>(config.vocab_size);
  Status made = decoder_.grow(kRows);
  if (made) made = ids_.at_least(kAll);
  if (made) made = moves_.at_least(kRows);
  if (made) made = positions_.at_least(kRows);
  if (made) made = places_.at_least(kRows);
  if (made) made = sequences_.at_least(kRows);
  if (made) made = logits_.zeros_at_least(kRows * vocab);
  if (made) made = samplers_.at_least(kAll);
  if (made)
    made = context_.zeros_at_least(kRows * static_cast<size_t>(context_words(config.vocab_size)));
  if (made) made = out_.at_least((kRounds + 1) * kAll);
  if (made) made = workspace_.open(stream().get(), kRows, config.vocab_size);
  for (cudaEvent_t& event : events_) {
    if (!made || event != nullptr) continue;
    const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess) made = cuda_error("an event", error);
  }
  if (made) made = open_rows();
  open_ = static_cast<bool>(made);
  return made;
}

// All of them idle.
Status AnswerSteps::open_rows() {
  const TextConfig& config = decoder_.config_;
  const size_t values = static_cast<size_t>(config.num_layers) *
                        static_cast<size_t>(config.num_kv_heads) *
                        static_cast<size_t>(config.head_dim);
  Status made = idle_keys_.zeros_at_least(kRows * values);
  if (made) made = idle_values_.zeros_at_least(kRows * values);
  const SamplerState greedy = make_sampler_state({});
  for (int row = 0; row < kRows && made; ++row) {
    made = put(0, ids_, row);
    if (made) made = put(TokenPosition{}, positions_, row);
    if (made) made = put(greedy, samplers_, row);
    if (made) made = make_idle(row);
  }
  if (made) made = put(greedy, samplers_, kAside);
  return made;
}

// The row goes on being computed, from and to memory of its own.
Status AnswerSteps::make_idle(int row) {
  const TextConfig& config = decoder_.config_;
  const int64_t at = int64_t{row} * config.num_layers * config.num_kv_heads * config.head_dim;
  const RowPlace place{idle_keys_.data() + at, idle_values_.data() + at, 1, 0};
  AttentionSequence sequence;
  sequence.q_begin = row;
  sequence.q_count = 1;
  sequence.keys = place.keys;
  sequence.values = place.values;
  sequence.capacity = sequence.key_count = 1;
  Status done = put(0, moves_, row);
  if (done) done = put(place, places_, row);
  if (done) done = put(sequence, sequences_, row);
  return done;
}

void AnswerSteps::release(int row) {
  AnswerState*& owner = owners_[static_cast<size_t>(row)];
  if (owner == nullptr) return;
  owner->row = -1;
  owner = nullptr;
  // Pinned memory that cannot be had for a few bytes: the device is lost, as the next call tells.
  (void)make_idle(row);
}

void AnswerSteps::leave(AnswerState& answer) {
  if (answer.row >= 0) release(answer.row);
}

// Where the next step finds the keys and values: those of all tokens that were drawn but the last.
Status AnswerSteps::upload_places(const AnswerState& answer) {
  const auto& memory = static_cast<const DecoderKeyValues&>(*answer.memory->on_device);
  const auto read = static_cast<int>(answer.prompt_tokens + std::max<int64_t>(answer.drawn - 1, 0));
  // The step begins by moving on.
  const RowPlace place{const_cast<bf16*>(memory.keys.data()),
                       const_cast<bf16*>(memory.values.data()), memory.capacity, read - 1};
  AttentionSequence sequence;
  sequence.q_begin = answer.row;
  sequence.q_count = 1;
  sequence.keys = memory.keys.data();
  sequence.values = memory.values.data();
  sequence.capacity = memory.capacity;
  sequence.key_count = read;
  sequence.first_query = read - 1;
  if (auto done = put(place, places_, answer.row); !done) return done;
  return put(sequence, sequences_, answer.row);
}

Status AnswerSteps::load(AnswerState& answer) {
  const auto* free = std::find(owners_.begin(), owners_.end(), nullptr);
  FOVEA_CHECK(free != owners_.end());
  const auto row = static_cast<int>(free - owners_.begin());
  owners_[static_cast<size_t>(row)] = &answer;
  answer.row = row;
  answer.drawn = answer.seen;
  const float before =
      answer.position + static_cast<float>(std::max<int64_t>(answer.seen - 1, 0)) - 1;
  Status done = upload_places(answer);
  if (done) done = put(TokenPosition{before, before, before}, positions_, row);
  if (done) done = put(answer.last, ids_, row);
  if (done) done = put(make_sampler_state(answer.sampling, answer.seen), samplers_, row);
  if (done && has_penalty(answer)) {
    std::vector<uint32_t> bits(static_cast<size_t>(context_words(decoder_.config_.vocab_size)));
    add_context_bits(bits, answer.context);
    done = decoder_.staging_.upload(stream(), std::as_bytes(std::span(bits)),
                                    context_.data() + static_cast<size_t>(row) * bits.size());
  }
  if (done) done = put(1, moves_, row);
  return done;
}

// Memory for the token that the next step reads.
Status AnswerSteps::grow(const AnswerState& answer) {
  const auto* present = static_cast<const DecoderKeyValues*>(answer.memory->on_device.get());
  const int64_t read = answer.prompt_tokens + answer.drawn;
  if (present->capacity >= read) return Done{};
  if (auto room = decoder_.room_for(answer.memory->on_device, read - 1, read); !room)
    return room.error();
  return upload_places(answer);
}

TokenChoiceJob AnswerSteps::choice(const float* logits, const Round& round) {
  TokenChoiceJob job;
  job.logits = logits;
  job.sequences = round.count;
  job.vocab = decoder_.config_.vocab_size;
  job.states = samplers_.data() + round.first;
  if (round.penalty)
    job.context_bits =
        context_.data() + static_cast<int64_t>(round.first) * context_words(job.vocab);
  job.greedy_only = round.greedy;
  job.out = round.out;
  job.ids = ids_.data() + round.first;
  return job;
}

void AnswerSteps::enqueue(const Round& round) {
  const TextConfig& config = decoder_.config_;
  const int first = round.first;
  CudaDecoder::Pass pass;
  pass.positions = positions_.data() + first;
  pass.places = places_.data() + first;
  pass.sequences_at = sequences_.data() + first;
  pass.rows = pass.sequences = round.count;
  pass.max_count = 1;
  pass.max_keys = round.max_keys;
  pass.layers = config.num_layers;
  StepStart start;
  start.ids = ids_.data() + first;
  start.moves = moves_.data() + first;
  start.positions = positions_.data() + first;
  start.places = places_.data() + first;
  start.sequences_at = sequences_.data() + first;
  start.sequences = round.count;
  start.table = decoder_.weights_.embedding.weight.data();
  start.cols = config.hidden_size;
  start.hidden = decoder_.work_.hidden.data();
  start.angles = decoder_.angles_of(pass);
  float* logits = logits_.data();  // nobody needs them afterwards
  begin_step_cuda(stream().get(), start);
  decoder_.run_layers(pass, {});
  decoder_.project(decoder_.weights_.norm, decoder_.weights_.head(), round.count,
                   MatmulFinish::kStoreFloat, logits);
  choose_tokens_cuda(stream().get(), choice(logits, round), workspace_);
}

void AnswerSteps::note_drawn(AnswerState& answer, int event) {
  answer.unseen[static_cast<size_t>(answer.drawn % 2)] = {out_of(event, answer.row), event};
  ++answer.drawn;
}

// From the logits that the prompt left.
void AnswerSteps::draw_first(AnswerState& answer) {
  const auto& memory = static_cast<const DecoderKeyValues&>(*answer.memory->on_device);
  const Round round{.first = answer.row,
                    .greedy = answer.sampling.temperature == 0,
                    .penalty = has_penalty(answer),
                    .out = out_of(kAlone, answer.row)};
  choose_tokens_cuda(stream().get(), choice(memory.logits.data(), round), workspace_);
  note_drawn(answer, kAlone);
}

// An answer whose row was lost catches up with the others.
void AnswerSteps::draw_alone(AnswerState& answer) {
  answer.status = grow(answer);
  if (!answer.status) return;
  enqueue({.first = answer.row,
           .max_keys = rounded_keys(answer),
           .greedy = answer.sampling.temperature == 0,
           .penalty = has_penalty(answer),
           .out = out_of(kAlone, answer.row)});
  note_drawn(answer, kAlone);
}

void AnswerSteps::draw_together(std::span<AnswerState* const> answers) {
  Round round;
  for (const AnswerState* answer : answers) {
    round.count = std::max(round.count, answer->row + 1);
    round.max_keys = std::max(round.max_keys, rounded_keys(*answer));
    round.greedy = round.greedy && answer->sampling.temperature == 0;
    round.penalty = round.penalty || has_penalty(*answer);
  }
  round.count = static_cast<int>(std::bit_ceil(static_cast<unsigned>(round.count)));
  round.out = out_of(round_, 0);
  const GraphKey key{
      -1, round.count, round.max_keys, round.greedy ? 1 : 0, round.penalty ? 1 : 0, round_};
  decoder_.graphs_.run(stream(), key, [&] { enqueue(round); });
  cudaEventRecord(events_[static_cast<size_t>(round_)], stream().get());
  for (AnswerState* answer : answers) note_drawn(*answer, round_);
  round_ = (round_ + 1) % kRounds;
}

void AnswerSteps::step(std::span<AnswerState* const> answers) {
  FOVEA_CHECK(answers.size() <= kRows);
  std::vector<AnswerState*> drawing;
  for (AnswerState* answer : answers)
    if (may_draw(*answer)) drawing.push_back(answer);
  // Rows beyond what so many answers need are given up, too: their answers move to lower ones.
  const auto rows = static_cast<int>(std::bit_ceil(std::max<size_t>(drawing.size(), 1)));
  for (int row = 0; row < kRows; ++row) {
    AnswerState* owner = owners_[static_cast<size_t>(row)];
    const bool asked = std::find(answers.begin(), answers.end(), owner) != answers.end();
    const bool draws = std::find(drawing.begin(), drawing.end(), owner) != drawing.end();
    if (owner == nullptr || (draws && row < rows)) continue;
    if (!asked) owner->drawn = owner->seen;  // what it has not seen may be written over
    release(row);
  }
  bool alone = false;
  for (AnswerState* answer : drawing) {
    if (answer->row < 0) answer->status = load(*answer);
    if (!answer->status || (answer->drawn > answer->seen)) continue;
    if (answer->drawn == 0)
      draw_first(*answer);
    else if (ahead() > 1)
      draw_alone(*answer);
    alone = alone || answer->drawn > answer->seen;
  }
  if (alone) cudaEventRecord(events_[kAlone], stream().get());
  for (AnswerState* answer : drawing) {
    if (!may_draw(*answer)) continue;
    if (auto grown = grow(*answer); !grown) answer->status = grown;
  }
  std::erase_if(drawing, [&](AnswerState* answer) {
    const bool goes_on = may_draw(*answer);
    if (!goes_on && answer->row >= 0) release(answer->row);
    return !goes_on;
  });
  if (!drawing.empty()) draw_together(drawing);
}

Result<SampledToken> AnswerSteps::take(AnswerState& answer) {
  FOVEA_CHECK(answer.seen < answer.drawn);
  const AnswerState::Unseen& unseen = answer.unseen[static_cast<size_t>(answer.seen % 2)];
  cudaError_t error = cudaEventSynchronize(events_[static_cast<size_t>(unseen.event)]);
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error != cudaSuccess) return cuda_error("drawing a token", error);
  const ChosenToken chosen = *unseen.at;
  if (chosen.fault != ChoiceFault::kNone) return fault_of(chosen.fault);
  answer.memory->tokens_on_device = answer.prompt_tokens + answer.seen;
  ++answer.seen;
  answer.last = chosen.id;
  answer.context.push_back(chosen.id);
  SampledToken token;
  token.id = chosen.id;
  token.logprob = chosen.logprob;
  return token;
}

Result<double> AnswerSteps::confidence(const float* logits) {
  const Round aside{.first = kAside, .out = out_of(0, kAside)};
  choose_tokens_cuda(stream().get(), choice(logits, aside), workspace_);
  if (auto done = stream().wait(); !done) return done.error();
  const ChosenToken chosen = *aside.out;
  if (chosen.fault != ChoiceFault::kNone) return fault_of(chosen.fault);
  return std::exp(double{chosen.best_logprob});
}

}  // namespace fovea
