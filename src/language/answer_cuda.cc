// SPDX-License-Identifier: Apache-2.0
#include "language/answer_cuda.h"

#include <utility>

namespace fovea {

CudaAnswer::CudaAnswer(std::shared_ptr<CudaDecoder> decoder, DecoderMemory& memory,
                       const AnswerStart& start)
    : decoder_(std::move(decoder)) {
  state_.sampling = start.sampling;
  state_.memory = &memory;
  state_.context.assign(start.context.begin(), start.context.end());
  state_.position = start.position;
  state_.prompt_tokens = memory.tokens();
  state_.most_tokens = start.most_tokens;
}

CudaAnswer::~CudaAnswer() {
  const CudaAccelerator::Lock lock(*decoder_->device_);
  decoder_->steps_->leave(state_);
}

Result<SampledToken> CudaAnswer::next() {
  const CudaAccelerator::Lock lock(*decoder_->device_);
  AnswerState* const alone = &state_;
  if (decoder_->steps_->may_draw(state_)) decoder_->steps_->step({&alone, 1});
  if (!state_.status) return state_.status.error();
  return decoder_->steps_->take(state_);
}

Result<std::unique_ptr<DeviceAnswer>> CudaDecoder::answer(DecoderMemory& memory,
                                                          const AnswerStart& start) {
  const CudaAccelerator::Lock lock(*device_);
  if (auto opened = open_steps(); !opened) return opened.error();
  return std::unique_ptr<DeviceAnswer>(
      std::make_unique<CudaAnswer>(shared_from_this(), memory, start));
}

void CudaDecoder::draw(std::span<DeviceAnswer* const> answers) {
  const CudaAccelerator::Lock lock(*device_);
  std::vector<AnswerState*> states;
  for (DeviceAnswer* answer : answers) states.push_back(&static_cast<CudaAnswer*>(answer)->state());
  steps_->step(states);
}

Result<double> CudaDecoder::confidence(const DecoderMemory& memory) {
  const CudaAccelerator::Lock lock(*device_);
  if (auto opened = open_steps(); !opened) return opened.error();
  return steps_->confidence(static_cast<const DecoderKeyValues&>(*memory.on_device).logits.data());
}

Status CudaDecoder::open_steps() {
  if (steps_ == nullptr) steps_ = std::make_shared<AnswerSteps>(*this);
  return steps_->open();
}

}  // namespace fovea
