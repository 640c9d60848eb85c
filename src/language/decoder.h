// SPDX-License-Identifier: Apache-2.0
// language: tokens + visual tokens -> the logits of the next token, by the Qwen3-VL decoder.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "device/accelerator.h"
#include "fovea/result.h"
#include "memory/forget/kept_rows.h"
#include "memory/key_values.h"
#include "ops/attention/sparse/schedule.h"
#include "ops/attention/sparse/token_blocks.h"
#include "vision/vision.h"
#include "weights/config.h"
#include "weights/tensor_source.h"

namespace fovea {

// Where a token stands: in time, and in rows and columns of level-0 cells. A text token has the
// same number three times.
struct TokenPosition {
  float time = 0;
  float row = 0;
  float col = 0;

  friend bool operator==(const TokenPosition&, const TokenPosition&) = default;
};

// Visual tokens [first, first + count) of `tokens` stand at `at` and following of a run.
struct VisualSpan {
  size_t at = 0;
  const VisualTokens* tokens = nullptr;
  int first = 0;
  int count = 0;
};

// Tokens that follow what is in the memory.
struct TokenRun {
  std::span<const int> ids;                  // what they are where no visual token stands
  std::span<const TokenPosition> positions;  // one for each
  std::span<const VisualSpan> visual;
};

// What a call works in, kept between calls so that the next token asks for no memory. Rows are the
// tokens of a chunk.
struct DecoderScratch {
  Buffer<float> hidden;  // [rows][hidden_size]: what the layers add to
  Buffer<float> input;   // [rows][hidden_size] of a norm, or [rows][heads * head_dim] of attention
  Buffer<float> inner;   // q, k and v, each [rows][its size]; or gate and up, likewise
  Buffer<float> cos;     // [rows][head_dim / 2]
  Buffer<float> sin;
  Buffer<float> logits;  // [rows][vocab_size] of the steps of several sequences

  size_t bytes() const;
};

// Keys and values of every layer, of all tokens so far.
struct DecoderMemory {
  std::shared_ptr<Reservation> pages;  // what layers draw on; null: made without a bound
  std::vector<KeyValues> layers;       // empty before the first call
  KeyFormats formats;                  // in which they store rows
  int64_t reserved_tokens = 0;         // what reserve() was asked for, for a device
  DecoderScratch scratch;
  // In place of all that, where a device decodes: it holds the first so many tokens.
  std::shared_ptr<OnDevice> on_device;
  int64_t tokens_on_device = 0;

  // Of the first `forgotten_tokens` tokens, each layer has fewer rows than tokens; of those behind
  // them, one each.
  int64_t forgotten_tokens = 0;
  std::vector<int64_t> missing_rows;  // of each layer; empty where nothing was forgotten

  int64_t tokens() const {
    return layers.empty() ? tokens_on_device : layers.front().size() + missing(0);
  }
  int64_t missing(size_t layer) const { return missing_rows.empty() ? 0 : missing_rows[layer]; }
  void open(const TextConfig& config);     // makes the layers, where there are none yet
  void store_as(const KeyFormats& other);  // forgets all tokens where that is another format
  size_t bytes() const;                    // of the keys and values
  // Says how many there will be in all, so that a device makes room for them at once.
  void reserve(int64_t tokens);
  // Forgets all but the first; all of them where that is inside of what was forgotten.
  void truncate(int64_t tokens);
  // The tokens from `first` on that `kept` tells of, for each layer, become the rows that it says.
  // Where memory runs out on the way, std::bad_alloc is thrown and nothing is left.
  void keep(int64_t first, std::span<const KeptRows> kept);
};

// How much the tokens [query_begin, query_end) of a run attend to the keys [key_begin, key_end) of
// the whole sequence (memory and run), averaged over queries, heads and the chosen layers.
struct AttentionReadout {
  std::vector<int> layers;  // at least one
  size_t query_begin = 0;
  size_t query_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;
  std::vector<float> mass;  // the result: [key_end - key_begin]
  bool wants_last = false;
  std::vector<float> last_mass;  // the same of the last of these queries alone, where it is wanted
};

// How much the tokens [query_begin, query_end) of a run attend to the keys of the tokens
// [key_begin, key_end) of the whole sequence, in each layer: what forgetting chooses by. On a CPU.
struct KeyReadout {
  size_t query_begin = 0;
  size_t query_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;
  // Of those queries count only the ones that give these keys at least the mean, in the first
  // layer.
  bool by_raters = false;
  struct Layer {
    std::vector<float> mass;  // [key_end - key_begin], averaged over the queries that count
    double density = 0;       // the share of (query, head, key) that stands out (kStandsOut)
  };
  std::vector<Layer> layers;       // the result
  std::vector<float> query_parts;  // by_raters: how much each query counts, 1 on average
};

// The hidden state after the first `layers` layers, deepstack added: what the next layer reads.
struct HiddenReadout {
  int layers = 0;        // 1 or more
  Buffer<float> hidden;  // the result: [tokens of the run][hidden_size]
};

// Tokens of a run that a CPU takes through the layers at once.
inline constexpr int64_t kDecoderChunk = 512;

struct ForwardOptions {
  int chunk_tokens = 0;     // a long run is worked on in chunks of so many; 0: as suits
  bool all_logits = false;  // after each token of the run: [tokens][vocab_size]
  // Without logits, on a device: those after the last token stay there, for answer().
  bool leave_logits = false;
  AttentionReadout* readout = nullptr;  // filled where given
  HiddenReadout* hidden = nullptr;      // likewise
  KeyReadout* keys = nullptr;           // likewise, on a CPU; not of steps
  // Without logits: only the first so many layers, where above 0. The memory is then left as it
  // was.
  int layers = 0;
  // How tokens attend to each other in each layer; other than dense only where
  // Decoder::has_kinds(). `images` are the visual tokens of the whole sequence (memory and run) by
  // what was encoded together. By "prefix" they see each other: no run may end inside of one.
  AttentionSchedule attention;
  std::span<const TokenRange> images;
  // For tests and traces: sees each layer's output after its deepstack addition, for each chunk:
  // [tokens][hidden_size].
  std::function<void(int layer, int64_t first_token, int64_t tokens, const float* hidden)> on_layer;
  // Asked between layers, and on the CPU about every 100 ms inside one (StopLoops); false stops the
  // work: the result is empty, the memory as it was.
  std::function<bool()> keep_going;
};

// One sequence's share of a call: what is added to its memory, and what came of it.
struct ForwardRequest {
  TokenRun run;                     // of one token or more
  DecoderMemory* memory = nullptr;  // no other request of the call has the same
  ForwardOptions options;
  bool wants_logits = false;  // after the last token, or after each (ForwardOptions::all_logits)

  int64_t tokens_before = 0;  // of the memory, when the call began
  Buffer<float> logits;       // [vocab_size], or [tokens][vocab_size]
  Status status = Done{};     // an error is this request's alone
  bool stopped = false;       // ForwardOptions::keep_going ended it

  // Where it is not, the memory is as it was and `logits` holds nothing of use.
  bool done() const { return status && !stopped; }
};

struct AnswerStart;
class DeviceAnswer;
class DeviceDecoder;

class Decoder {
 public:
  // `config.tie_word_embeddings` decides whether there is a head of its own; a checkpoint whose
  // settings say it is tied may still hold two that differ (Checkpoint::head_is_tied).
  // On a GPU, weights are kept as bf16, which the source must give.
  static Result<Decoder> build(const ModelConfig& config, const TensorSource& source,
                               const std::shared_ptr<Accelerator>& device = open_cpu());

  // Adds the run of each request to its memory. Tokens of different sequences that follow one by
  // one go through the layers together, so that the weights are read once for all; on a CPU longer
  // runs follow one another. What fails or is stopped leaves the others as they would be without
  // it. On a CPU a request has the same bits alone and in any company, on any number of threads.
  void work(Threads& threads, std::span<ForwardRequest> requests) const;

  // The same for one: the logits after the last token, [vocab_size]; empty where `keep_going`
  // ended it.
  Result<Buffer<float>> forward(Threads& threads, const TokenRun& run, DecoderMemory& memory,
                                const ForwardOptions& options = {}) const;
  // ... without logits; false where `keep_going` ended it.
  Result<bool> read(Threads& threads, const TokenRun& run, DecoderMemory& memory,
                    const ForwardOptions& options = {}) const;

  // Whether answer() is there: the device makes answers by itself.
  bool answers() const;
  // Draws the tokens of an answer from the logits that read() left, on the device.
  Result<std::unique_ptr<DeviceAnswer>> answer(DecoderMemory& memory,
                                               const AnswerStart& start) const;
  // Goes on with several of those in one pass (DeviceAnswers::draw).
  void draw(std::span<DeviceAnswer* const> answers) const;
  // How sure it is of the first: the probability of the most likely token.
  Result<double> confidence(const DecoderMemory& memory) const;

  // Whether its device knows other attention than dense.
  bool has_kinds(const AttentionSchedule& attention) const;
  const TextConfig& config() const { return config_; }
  size_t bytes() const;  // of its weights
  const std::shared_ptr<DeviceDecoder>& on_device() const { return device_; }

 private:
  void start(ForwardRequest& request) const;
  Decoder(const TextConfig& config, std::shared_ptr<DeviceDecoder> device)
      : config_(config), device_(std::move(device)) {}

  TextConfig config_;
  std::shared_ptr<DeviceDecoder> device_;
};

}  // namespace fovea
