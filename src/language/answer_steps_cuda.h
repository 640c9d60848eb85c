// SPDX-License-Identifier: Apache-2.0
// Decode steps of several answers at once on a GPU: tokens are drawn and read without the host,
// which waits for one of them while the device works on the next.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "language/begin_step_cuda.h"
#include "language/decoder_cuda.h"
#include "language/sampler_cuda.h"

namespace fovea {

// What an answer began with, and how far it has come.
struct AnswerState {
  SamplingOptions sampling;
  DecoderMemory* memory = nullptr;
  std::vector<int> context;   // the prompt, then the answer
  float position = 0;         // of the answer's first token
  int64_t prompt_tokens = 0;  // that the memory held at the start
  int64_t most_tokens = 0;
  int64_t drawn = 0;  // tokens that are drawn or being drawn
  int64_t seen = 0;   // of them by the host
  int last = 0;       // the last one it saw
  int row = -1;       // of the steps; -1: none
  Status status = Done{};

  // Where a token that the host has not seen comes to lie, and the event it is there after.
  struct Unseen {
    const ChosenToken* at = nullptr;
    int event = 0;
  };
  std::array<Unseen, 2> unseen;  // of token i: i % 2

  bool may_draw(int64_t ahead) const {
    return status && drawn < std::min(seen + ahead, most_tokens);
  }
};

// Each answer that goes on has a row of the step, and what the row needs lies at addresses that
// graphs know. A step computes the first 1, 2, 4, 8, 16, 32 or 64 rows; rows that nobody has are
// idle.
class AnswerSteps {
 public:
  static constexpr int kRows = DeviceAnswers::kMostAnswers;

  explicit AnswerSteps(CudaDecoder& decoder) : decoder_(decoder) {}
  AnswerSteps(const AnswerSteps&) = delete;
  AnswerSteps& operator=(const AnswerSteps&) = delete;
  ~AnswerSteps();

  // Makes memory, where there is none yet.
  Status open();
  // One token more for each of them, and one ahead of that; the rows of all others become idle.
  // Each takes a token before the next step. What goes wrong with one is in its status.
  void step(std::span<AnswerState* const> answers);
  // Whether a step has something to do for it.
  bool may_draw(const AnswerState& answer) const { return answer.may_draw(ahead()); }
  // The first token that was not seen.
  Result<SampledToken> take(AnswerState& answer);
  // An answer that ends gives its row back.
  void leave(AnswerState& answer);
  // The probability of the most likely token.
  Result<double> confidence(const float* logits);

 private:
  static constexpr int kRounds = 2;     // of steps whose tokens were not seen
  static constexpr int kAlone = 2;      // the event of tokens that were drawn outside of a step
  static constexpr int kAside = kRows;  // the row of a choice that no answer makes

  Stream& stream() const;
  // Tokens that are drawn before the host has seen one; one where each is timed.
  int64_t ahead() const;
  ChosenToken* out_of(int round, int row) { return out_.data() + round * (kRows + 1) + row; }
  Status open_rows();
  // Gives the answer the first row that nobody has, and puts what the host knows of it there. What
  // was drawn and not seen is drawn again, which gives the same.
  Status load(AnswerState& answer);
  void release(int row);
  Status make_idle(int row);
  Status upload_places(const AnswerState& answer);
  Status grow(const AnswerState& answer);
  void draw_first(AnswerState& answer);
  void draw_alone(AnswerState& answer);
  void draw_together(std::span<AnswerState* const> answers);
  void note_drawn(AnswerState& answer, int event);
  // Reads the tokens that were drawn last into rows [first, first + count) and draws the next.
  struct Round {
    int first = 0;
    int count = 1;
    int max_keys = 0;
    bool greedy = true;
    bool penalty = false;
    ChosenToken* out = nullptr;  // of the first row
  };
  void enqueue(const Round& round);
  TokenChoiceJob choice(const float* logits, const Round& round);
  template <class T>
  Status put(const T& value, DeviceMemory<T>& to, int row);

  CudaDecoder& decoder_;
  bool open_ = false;
  std::array<AnswerState*, kRows> owners_{};
  std::array<cudaEvent_t, kRounds + 1> events_{};
  int round_ = 0;  // the next one's place in out_

  DeviceMemory<int> ids_;  // [rows] each
  DeviceMemory<int> moves_;
  DeviceMemory<TokenPosition> positions_;
  DeviceMemory<RowPlace> places_;
  DeviceMemory<AttentionSequence> sequences_;
  DeviceMemory<float> logits_;  // [rows][vocab_size]
  DeviceMemory<SamplerState> samplers_;
  DeviceMemory<uint32_t> context_;  // [rows][words of vocab_size bits]
  DeviceMemory<bf16> idle_keys_;    // [rows][layers][kv_heads][head_dim]: of idle rows
  DeviceMemory<bf16> idle_values_;
  PinnedMemory<ChosenToken> out_;  // [kRounds + 1][rows], written by the device
  SamplerWorkspace workspace_;
};

}  // namespace fovea
