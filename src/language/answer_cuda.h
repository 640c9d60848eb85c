// SPDX-License-Identifier: Apache-2.0
// An answer made on a GPU: tokens are drawn and read without the host, which waits for one of them
// while the device works on the next.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "language/decoder_cuda.h"
#include "language/sampler_cuda.h"

namespace fovea {

// What the steps of an answer work with besides the decoder's own memory, at addresses that graphs
// know. One answer at a time has it loaded; another loads its own state and the first one loads
// again when its turn comes.
struct AnswerSteps {
  static constexpr size_t kSlots = 2;  // of tokens that were drawn and not seen

  const void* owner = nullptr;
  DeviceMemory<int> ids;
  DeviceMemory<TokenPosition> positions;
  DeviceMemory<RowPlace> places;
  DeviceMemory<AttentionSequence> sequences;
  DeviceMemory<float> logits;  // [sequences][vocab_size]
  DeviceMemory<SamplerState> samplers;
  DeviceMemory<uint32_t> context;   // [sequences][words of vocab_size bits]
  PinnedMemory<ChosenToken> slots;  // [kSlots], written by the device
  SamplerWorkspace workspace;
  int room = 0;  // sequences
  int vocab = 0;

  Status make(Stream& stream, int count, int vocab_size);
  // Draws from logits of one sequence, into `ids` and a slot.
  TokenChoiceJob choice(const float* from, bool greedy, size_t slot);
};

// Moves every sequence on by the token that was chosen for it, positions and places, and embeds it:
// hidden[s] = its row of the table, and the angles of its position. It does not begin before all
// that was enqueued before it has ended, which attention_step_cuda relies on.
struct StepStart {
  const int* ids = nullptr;  // [sequences] each
  TokenPosition* positions = nullptr;
  RowPlace* places = nullptr;
  AttentionSequence* sequences_at = nullptr;
  int sequences = 0;
  const bf16* table = nullptr;  // [.][cols]
  int cols = 0;                 // a multiple of 8
  float* hidden = nullptr;      // [sequences][cols]
  AngleJob angles;
};
void begin_step_cuda(cudaStream_t stream, const StepStart& start);

class CudaAnswer : public DeviceAnswer {
 public:
  CudaAnswer(std::shared_ptr<CudaDecoder> decoder, const DecoderMemory& memory,
             const AnswerStart& start);

  ~CudaAnswer() override;

  Result<SampledToken> next(DecoderMemory& memory) override;

 private:
  Status open();
  Status load(const DecoderKeyValues& memory);
  Status enqueue(DecoderMemory& memory);
  Status grow(DecoderMemory& memory);
  Status upload_places(const DecoderKeyValues& memory);
  void step(size_t slot);
  Result<SampledToken> take();

  std::shared_ptr<CudaDecoder> decoder_;
  SamplingOptions sampling_;
  std::vector<int> context_;   // the prompt, then the answer
  float position_ = 0;         // of the answer's first token
  int64_t prompt_tokens_ = 0;  // that the memory held at the start
  int64_t most_tokens_ = 0;
  int64_t drawn_ = 0;  // tokens that are drawn or being drawn
  int64_t seen_ = 0;   // of them by the host
  int last_ = 0;       // the last one it saw
  bool opened_ = false;
  std::array<cudaEvent_t, AnswerSteps::kSlots> events_{};
};

}  // namespace fovea
