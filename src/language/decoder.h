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
#include "ops/key_values.h"
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

  size_t bytes() const;
};

// Keys and values of every layer, of all tokens so far.
struct DecoderMemory {
  std::vector<KeyValues> layers;  // empty before the first call
  int64_t reserved_tokens = 0;    // what reserve() was asked for
  DecoderScratch scratch;
  // In place of all that, where a device decodes: it holds the first so many tokens.
  std::shared_ptr<OnDevice> on_device;
  int64_t tokens_on_device = 0;

  int64_t tokens() const { return layers.empty() ? tokens_on_device : layers.front().size(); }
  size_t bytes() const;           // of the keys and values
  void reserve(int64_t tokens);   // makes room for so many in all, now or with the first call
  void truncate(int64_t tokens);  // forgets all but the first
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
};

// The hidden state after the first `layers` layers, deepstack added: what the next layer reads.
struct HiddenReadout {
  int layers = 0;        // 1 or more
  Buffer<float> hidden;  // the result: [tokens of the run][hidden_size]
};

struct DecodeOptions {
  int chunk_tokens = 0;     // a long run is worked on in chunks of so many; 0: as suits
  bool all_logits = false;  // after each token of the run: [tokens][vocab_size]
  // read() alone, on a device: the logits after the last token stay there, for answer().
  bool leave_logits = false;
  AttentionReadout* readout = nullptr;  // filled where given
  HiddenReadout* hidden = nullptr;      // likewise
  // read() alone: only the first so many layers, where above 0. The memory is then left as it was.
  int layers = 0;
  // For tests and traces: sees each layer's output after its deepstack addition, for each chunk:
  // [tokens][hidden_size].
  std::function<void(int layer, int64_t first_token, int64_t tokens, const float* hidden)> on_layer;
  // Asked between layers; false stops the work: the result is empty, the memory as it was.
  std::function<bool()> keep_going;
};

struct DecoderWeights;
struct AnswerStart;
class DeviceAnswer;
class DeviceDecoder;

class Decoder {
 public:
  // `config.tie_word_embeddings` decides whether there is a head of its own; a checkpoint whose
  // settings say it is tied may still hold two that differ (Checkpoint::head_is_tied).
  // On a device, weights are kept as bf16, which the source must give.
  static Result<Decoder> build(const ModelConfig& config, const TensorSource& source,
                               const std::shared_ptr<Accelerator>& device = nullptr);

  // Adds a run of one token or more to the memory and gives the logits after its last token:
  // [vocab_size]. A device that fails gives none, and says why when asked
  // (Accelerator::take_status).
  Buffer<float> decode(Threads& threads, const TokenRun& run, DecoderMemory& memory,
                       const DecodeOptions& options = {}) const;

  // The same without logits; false where `keep_going` ended it.
  bool read(Threads& threads, const TokenRun& run, DecoderMemory& memory,
            const DecodeOptions& options = {}) const;

  // Whether answer() is there: a device makes answers by itself.
  bool answers() const { return device_ != nullptr; }
  // Draws the tokens of an answer from the logits that read() left, on the device.
  Result<std::unique_ptr<DeviceAnswer>> answer(const DecoderMemory& memory,
                                               const AnswerStart& start) const;
  // How sure it is of the first: the probability of the most likely token.
  Result<double> confidence(const DecoderMemory& memory) const;

  const TextConfig& config() const { return config_; }
  size_t bytes() const;  // of its weights
  // Null: the CPU decodes.
  const std::shared_ptr<DeviceDecoder>& on_device() const { return device_; }

 private:
  bool work(Threads& threads, const TokenRun& run, DecoderMemory& memory,
            const DecodeOptions& options, Buffer<float>* logits) const;
  bool work_on_device(const TokenRun& run, DecoderMemory& memory, const DecodeOptions& options,
                      Buffer<float>* logits) const;
  Decoder(const TextConfig& config, std::shared_ptr<const DecoderWeights> weights)
      : config_(config), weights_(std::move(weights)) {}

  TextConfig config_;
  std::shared_ptr<const DecoderWeights> weights_;  // null where a device has them
  std::shared_ptr<Accelerator> accelerator_;       // null: the CPU
  std::shared_ptr<DeviceDecoder> device_;
};

}  // namespace fovea
