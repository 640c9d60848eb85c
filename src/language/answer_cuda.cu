// SPDX-License-Identifier: Apache-2.0
#include "language/answer_cuda.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "device/cuda/kernel.h"
#include "language/angle_parts_cuda.h"

namespace fovea {
namespace {

constexpr int kStartThreads = 256;

// A block moves one sequence on.
__global__ void __launch_bounds__(kStartThreads) begin_step(StepStart start) {
  let_next_start();
  const auto s = static_cast<int>(blockIdx.x);
  const auto thread = static_cast<int>(threadIdx.x);
  const int id = __ldcg(start.ids + s);
  TokenPosition position = start.positions[s];
  position = {position.time + 1, position.row + 1, position.col + 1};
  const bf16* from = start.table + int64_t{id} * start.cols;
  float* to = start.hidden + int64_t{s} * start.cols;
  for (int c = thread * 8; c < start.cols; c += 8 * kStartThreads) {
    const uint4 eight = __ldg(reinterpret_cast<const uint4*>(from + c));
    auto* four = reinterpret_cast<float4*>(to + c);
    four[0] =
        make_float4(first_of(eight.x), second_of(eight.x), first_of(eight.y), second_of(eight.y));
    four[1] =
        make_float4(first_of(eight.z), second_of(eight.z), first_of(eight.w), second_of(eight.w));
  }
  for (int i = thread; i < start.angles.half; i += kStartThreads)
    turn_angle(start.angles, s, i, position);
  __syncthreads();  // all have read the position
  if (thread != 0) return;
  start.positions[s] = position;
  start.places[s].position += 1;
  start.sequences_at[s].key_count += 1;
  start.sequences_at[s].first_query += 1;
}

Error fault_of(ChoiceFault fault) {
  return failed(fault == ChoiceFault::kNotFinite
                    ? "choosing a token: a score of the model is not a number or infinite; "
                      "its weights may be damaged, or try --device cpu"
                    : "choosing a token: the model excludes all tokens; its weights may be "
                      "damaged, or try --device cpu");
}

}  // namespace

void begin_step_cuda(cudaStream_t stream, const StepStart& start) {
  launch(begin_step,
         {.grid = static_cast<unsigned>(start.sequences), .block = kStartThreads, .stream = stream},
         start);
}

Status AnswerSteps::make(Stream& stream, int count, int vocab_size) {
  if (count <= room) return Done{};
  owner = nullptr;
  room = 0;
  const auto size = static_cast<size_t>(count);
  Status made = positions.at_least(size);
  if (made) made = places.at_least(size);
  if (made) made = sequences.at_least(size);
  if (made) made = logits.at_least(size * static_cast<size_t>(vocab_size));
  if (made) made = samplers.at_least(size);
  if (made) made = context.at_least(size * static_cast<size_t>(context_words(vocab_size)));
  if (made) made = ids.at_least(size);
  if (made) made = slots.at_least(kSlots);
  if (made) made = workspace.open(stream.get(), count, vocab_size);
  vocab = vocab_size;
  if (made) room = count;
  return made;
}

TokenChoiceJob AnswerSteps::choice(const float* from, bool greedy, size_t slot) {
  TokenChoiceJob job;
  job.logits = from;
  job.sequences = 1;
  job.vocab = vocab;
  job.states = samplers.data();
  job.context_bits = context.data();
  job.greedy_only = greedy;
  job.out = slots.data() + slot;
  job.ids = ids.data();
  return job;
}

CudaAnswer::CudaAnswer(std::shared_ptr<CudaDecoder> decoder, const DecoderMemory& memory,
                       const AnswerStart& start)
    : decoder_(std::move(decoder)),
      sampling_(start.sampling),
      context_(start.context.begin(), start.context.end()),
      position_(start.position),
      prompt_tokens_(memory.tokens()),
      most_tokens_(start.most_tokens) {}

CudaAnswer::~CudaAnswer() {
  const CudaAccelerator::Turn turn(*decoder_->device_);
  // What is still being drawn writes into the slots.
  if (opened_) (void)decoder_->device_->stream().wait();
  for (cudaEvent_t event : events_)
    if (event != nullptr) cudaEventDestroy(event);
  if (decoder_->steps_->owner == this) decoder_->steps_->owner = nullptr;
}

Status CudaAnswer::open() {
  if (opened_) return Done{};
  for (cudaEvent_t& event : events_)
    if (const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        error != cudaSuccess)
      return cuda_error("an event", error);
  opened_ = true;
  return Done{};
}

// Where the next step finds the keys and values: those of all tokens that were drawn but the last.
Status CudaAnswer::upload_places(const DecoderKeyValues& memory) {
  AnswerSteps& steps = *decoder_->steps_;
  const auto read = static_cast<int>(prompt_tokens_ + std::max<int64_t>(drawn_ - 1, 0));
  // The step begins by moving on.
  const RowPlace place{const_cast<bf16*>(memory.keys.data()),
                       const_cast<bf16*>(memory.values.data()), memory.capacity, read - 1};
  AttentionSequence sequence;
  sequence.q_count = 1;
  sequence.keys = memory.keys.data();
  sequence.values = memory.values.data();
  sequence.capacity = memory.capacity;
  sequence.key_count = read;
  sequence.first_query = read - 1;
  Stream& stream = decoder_->device_->stream();
  if (auto done = decoder_->staging_.upload<RowPlace>(stream, {&place, 1}, steps.places); !done)
    return done;
  return decoder_->staging_.upload<AttentionSequence>(stream, {&sequence, 1}, steps.sequences);
}

// Puts what the host knows of the answer where the steps look for it. What was drawn and not seen
// is drawn again, which gives the same.
Status CudaAnswer::load(const DecoderKeyValues& memory) {
  AnswerSteps& steps = *decoder_->steps_;
  drawn_ = seen_;
  if (auto done = upload_places(memory); !done) return done;
  Stream& stream = decoder_->device_->stream();
  Staging& staging = decoder_->staging_;
  const float before = position_ + static_cast<float>(std::max<int64_t>(seen_ - 1, 0)) - 1;
  const TokenPosition at{before, before, before};
  const SamplerState sampler = make_sampler_state(sampling_, seen_);
  std::vector<uint32_t> bits(static_cast<size_t>(context_words(decoder_->config_.vocab_size)));
  add_context_bits(bits, context_);
  Status done = staging.upload<TokenPosition>(stream, {&at, 1}, steps.positions);
  if (done) done = staging.upload<int>(stream, {&last_, 1}, steps.ids);
  if (done) done = staging.upload<SamplerState>(stream, {&sampler, 1}, steps.samplers);
  if (done) done = staging.upload<uint32_t>(stream, bits, steps.context);
  if (done) steps.owner = this;
  return done;
}

// Reads the token that was drawn last, and draws the next.
void CudaAnswer::step(size_t slot) {
  CudaDecoder& decoder = *decoder_;
  AnswerSteps& steps = *decoder.steps_;
  Stream& stream = decoder.device_->stream();
  CudaDecoder::Pass pass;
  pass.positions = steps.positions.data();
  pass.places = steps.places.data();
  pass.sequences_at = steps.sequences.data();
  pass.rows = pass.sequences = pass.max_count = 1;
  pass.layers = decoder.config_.num_layers;
  const int64_t keys = prompt_tokens_ + drawn_;
  pass.max_keys =
      static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(keys, 256))));
  const bool greedy = sampling_.temperature == 0;
  const GraphKey key{-1, pass.max_keys, greedy ? 1 : 0, static_cast<int64_t>(slot)};
  StepStart start;
  start.ids = steps.ids.data();
  start.positions = steps.positions.data();
  start.places = steps.places.data();
  start.sequences_at = steps.sequences.data();
  start.sequences = 1;
  start.table = decoder.weights_.embedding.weight.data();
  start.cols = decoder.config_.hidden_size;
  start.hidden = decoder.work_.hidden.data();
  start.angles = decoder.angles_of(pass);
  decoder.graphs_.run(stream, key, [&] {
    begin_step_cuda(stream.get(), start);
    decoder.run_layers(pass, {});
    decoder.project(decoder.weights_.norm, decoder.weights_.head(), 1, MatmulFinish::kStoreFloat,
                    steps.logits.data());
    choose_tokens_cuda(stream.get(), steps.choice(steps.logits.data(), greedy, slot),
                       steps.workspace);
  });
}

// Memory for the token that the next step reads.
Status CudaAnswer::grow(DecoderMemory& memory) {
  const auto* present = static_cast<const DecoderKeyValues*>(memory.on_device.get());
  const int64_t read = prompt_tokens_ + drawn_;
  if (present->capacity >= read) return Done{};
  auto room = decoder_->room_for(memory.on_device, read - 1, read);
  if (!room) return room.error();
  return upload_places(**room);
}

// Draws one more token; it is on its way to the host afterwards.
Status CudaAnswer::enqueue(DecoderMemory& memory) {
  AnswerSteps& steps = *decoder_->steps_;
  Stream& stream = decoder_->device_->stream();
  const size_t slot = static_cast<size_t>(drawn_) % AnswerSteps::kSlots;
  if (drawn_ == 0) {
    const auto& there = static_cast<const DecoderKeyValues&>(*memory.on_device);
    choose_tokens_cuda(stream.get(),
                       steps.choice(there.logits.data(), sampling_.temperature == 0, slot),
                       steps.workspace);
  } else {
    if (auto grown = grow(memory); !grown) return grown;
    step(slot);
  }
  cudaEventRecord(events_[slot], stream.get());
  ++drawn_;
  return Done{};
}

Result<SampledToken> CudaAnswer::take() {
  const size_t slot = static_cast<size_t>(seen_) % AnswerSteps::kSlots;
  cudaError_t error = cudaEventSynchronize(events_[slot]);
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error != cudaSuccess) return cuda_error("drawing a token", error);
  const ChosenToken chosen = decoder_->steps_->slots.data()[slot];
  if (chosen.fault != ChoiceFault::kNone) return fault_of(chosen.fault);
  ++seen_;
  last_ = chosen.id;
  context_.push_back(chosen.id);
  SampledToken token;
  token.id = chosen.id;
  token.logprob = chosen.logprob;
  return token;
}

Result<SampledToken> CudaAnswer::next(DecoderMemory& memory) {
  const CudaAccelerator::Turn turn(*decoder_->device_);
  if (auto opened = open(); !opened) return opened.error();
  if (decoder_->steps_->owner != this)
    if (auto loaded = load(static_cast<const DecoderKeyValues&>(*memory.on_device)); !loaded)
      return loaded.error();
  const int64_t ahead = decoder_->device_->on_stage ? 1 : 2;
  while (drawn_ < std::min(seen_ + ahead, most_tokens_))
    if (auto done = enqueue(memory); !done) return done.error();
  memory.tokens_on_device = prompt_tokens_ + seen_;
  return take();
}

Result<std::unique_ptr<DeviceAnswer>> CudaDecoder::answer(const DecoderMemory& memory,
                                                          const AnswerStart& start) {
  const CudaAccelerator::Turn turn(*device_);
  if (steps_ == nullptr) steps_ = std::make_shared<AnswerSteps>();
  if (auto grown = grow(1); !grown) return grown.error();
  if (auto made = steps_->make(device_->stream(), 1, config_.vocab_size); !made)
    return made.error();
  return std::unique_ptr<DeviceAnswer>(
      std::make_unique<CudaAnswer>(shared_from_this(), memory, start));
}

Result<double> CudaDecoder::confidence(const DecoderMemory& memory) {
  const CudaAccelerator::Turn turn(*device_);
  if (steps_ == nullptr) steps_ = std::make_shared<AnswerSteps>();
  Stream& stream = device_->stream();
  if (auto made = steps_->make(stream, 1, config_.vocab_size); !made) return made.error();
  steps_->owner = nullptr;
  const SamplerState greedy = make_sampler_state({});
  if (auto done = staging_.upload<SamplerState>(stream, {&greedy, 1}, steps_->samplers); !done)
    return done.error();
  const auto& there = static_cast<const DecoderKeyValues&>(*memory.on_device);
  TokenChoiceJob job = steps_->choice(there.logits.data(), true, 0);
  job.context_bits = nullptr;  // no penalty
  choose_tokens_cuda(stream.get(), job, steps_->workspace);
  if (auto done = stream.wait(); !done) return done.error();
  const ChosenToken chosen = steps_->slots.data()[0];
  if (chosen.fault != ChoiceFault::kNone) return fault_of(chosen.fault);
  return std::exp(double{chosen.best_logprob});
}

}  // namespace fovea
