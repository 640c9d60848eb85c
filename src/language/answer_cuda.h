// SPDX-License-Identifier: Apache-2.0
// An answer made on a GPU, alone or side by side with others.
#pragma once

#include <memory>

#include "language/answer_steps_cuda.h"

namespace fovea {

class CudaAnswer : public DeviceAnswer {
 public:
  CudaAnswer(std::shared_ptr<CudaDecoder> decoder, DecoderMemory& memory, const AnswerStart& start);
  ~CudaAnswer() override;

  Result<SampledToken> next() override;
  AnswerState& state() { return state_; }

 private:
  std::shared_ptr<CudaDecoder> decoder_;
  AnswerState state_;
};

}  // namespace fovea
