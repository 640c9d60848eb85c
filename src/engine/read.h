// SPDX-License-Identifier: Apache-2.0
// Reading a prompt: what of it is in memory already, what the model makes of the rest, and what
// that says about where to look.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "language/decoder.h"

namespace fovea {

// What a prompt is read for.
struct ReadGoal {
  bool answer = true;           // logits follow
  bool couple = false;          // couple() follows
  bool attention = false;       // the trace shows what was attended to
  bool last_attention = false;  // ... and what the prompt's last token alone attended to
  bool leave = false;           // the logits stay on the device
  bool forget = false;          // forget_keys() follows
};

struct Reading {
  bool done = false;                          // false: it was stopped
  Buffer<float> logits;                       // after the last token, where an answer follows
  bool left_logits = false;                   // ... they stayed on the device, for its answer
  AttentionReadout attention;                 // of the text after the last image
  KeyReadout keys;                            // where forgetting chooses by it
  std::vector<std::vector<float>> gaze_rows;  // as SessionState's, of the tokens after those
  int64_t kept_tokens = 0;                    // of the prompt that were in memory before
  double ms = 0;
};

// Has the decoder compute what the session does not hold yet of a prompt, piece by piece: what is
// done is kept where it is stopped between two pieces. Where no answer follows, the text after the
// last image goes through as many layers as coupling needs and leaves nothing behind.
//
//   while (ForwardRequest* piece = reader.next()) {
//     ... Decoder::work ...
//     if (auto took = reader.take(); !took || !*took) ...  // failed, or was stopped
//   }
class Reader {
 public:
  // Forgets what the session holds and the prompt has no use for. All of it must outlive this.
  Reader(SessionState& state, const TokenPrompt& prompt, const AskOptions& options,
         const ReadGoal& goal, const std::function<bool()>& keep_going);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // What the decoder has to do next; null where all is read.
  ForwardRequest* next();
  // Keeps what the decoder made of that. False where it was stopped.
  Result<bool> take();
  Reading finish();

 private:
  // Tokens [begin, end) of the prompt, which go through the decoder at once.
  struct Piece {
    int64_t begin = 0;
    int64_t end = 0;
    bool last = false;
    int64_t keep = 0;  // of a piece that passes: tokens before this one stay in memory
  };

  // Where an image that may not be read in two pieces ends, if one is being read at this token.
  int64_t end_of_image(int64_t token) const;
  void forget_other_settings(const AskOptions& options);
  int64_t without_forgotten(int64_t kept) const;
  void choose_asking();
  int64_t at() const { return static_cast<int64_t>(state_.kept.size()); }
  bool is_conversation() const { return prompt_.question_begin > 0; }
  void keep_beginning();
  void take_beginning();
  void leave_beginning();
  std::span<const int64_t> shared_ends() const;
  Piece next_piece() const;
  int layers_to_couple() const;
  void add_rows(std::vector<std::vector<float>>& rows) const;

  SessionState& state_;
  const Model& model_;
  const TokenPrompt& prompt_;
  const ReadGoal goal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool by_attention_ = false;
  bool by_keys_ = false;
  int64_t first_query_ =
      0;  // of the tokens that are read out, which stay together; else behind all
  std::vector<Digest> shared_;  // of the tokens that other sessions may have read; none: all alone
  // Where coupling follows, pieces end where an encoded part does, and where the question begins.
  std::vector<int64_t> ends_;
  bool leaves_ = true;              // what it reads of them is what any session would read
  int64_t run_begin_ = 0;           // where the decoder's chunks are counted from
  std::vector<TokenRange> images_;  // of visual tokens, where attention is not dense
  Piece piece_;
  RunStorage storage_;
  HiddenReadout hidden_;
  ForwardRequest work_;
  Reading reading_;
};

// What the question has to do with each place of an image, by the model that has just read both: by
// its gaze head, or by how much the text attends to the glance, over the most of any place. On a
// grid that couple_map knows; empty for an image without a glance. An error where the weights
// overflow.
Result<Map> couple(const SessionState& state, const TokenPrompt& prompt, const Reading& reading,
                   int image);

// How sure a model is: the probability of the most likely next token.
double confidence_of(std::span<const float> logits);

}  // namespace fovea
