// SPDX-License-Identifier: Apache-2.0
// The decoder on a GPU. Tokens of several sequences go through it in one pass, each with its own
// memory; all that differs between passes of one shape lies in device memory, so that graphs serve.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/cuda/cuda_accelerator.h"
#include "device/cuda/graphs.h"
#include "device/cuda/staging.h"
#include "language/angles_cuda.h"
#include "language/device_decoder.h"
#include "ops/attention/attention_cuda.h"
#include "ops/linear_cuda.h"
#include "ops/rows_cuda.h"

namespace fovea {

struct DeviceDecoderLayer {
  DeviceMemory<float> input_norm;
  DeviceMemory<float> attention_norm;
  DeviceMemory<float> q_norm;
  DeviceMemory<float> k_norm;
  DeviceLinear qkv;  // queries, keys, values
  DeviceLinear o;
  DeviceLinear gate_up;  // rows interleaved
  DeviceLinear down;
};

struct DeviceDecoderWeights {
  DeviceLinear embedding;
  DeviceLinear own_head;  // empty where it is the embedding
  DeviceMemory<float> norm;
  DeviceMemory<float> frequencies;  // text_frequencies
  std::vector<DeviceDecoderLayer> layers;

  // There when the uploads have finished.
  Status upload(WeightUploads& uploads, const TextConfig& config, const DecoderWeights& weights);
  const DeviceLinear& head() const { return own_head.n > 0 ? own_head : embedding; }
  size_t bytes() const;
};

// Keys and values of all layers: [layers][kv_heads][capacity][head_dim] each.
struct DecoderKeyValues : OnDevice {
  DeviceMemory<bf16> keys;
  DeviceMemory<bf16> values;
  DeviceMemory<float> logits;  // [vocab_size], after the last token, where they were left
  int capacity = 0;

  size_t bytes() const override { return keys.bytes() + values.bytes() + logits.bytes(); }
};

// Some tokens of one sequence, that follow what its memory holds: its rows of a pass.
struct PassRun {
  std::span<const int> ids;
  std::span<const TokenPosition> positions;
  std::span<const VisualSpan> visual;  // `at` counts from the first of these tokens
  DecoderKeyValues* memory = nullptr;  // with room for them
  int kept = 0;                        // tokens that are in it before
  // Of a request that has a pass by itself: how its tokens attend to each other, and the visual
  // tokens of its whole sequence. Null: densely.
  const AttentionSchedule* attention = nullptr;
  std::span<const TokenRange> images;
};

class AnswerSteps;

class CudaDecoder : public DeviceDecoder,
                    public DeviceAnswers,
                    public std::enable_shared_from_this<CudaDecoder> {
 public:
  static Result<std::shared_ptr<CudaDecoder>> make(const std::shared_ptr<CudaAccelerator>& device,
                                                   const TextConfig& config,
                                                   const DecoderWeights& weights);

  // ForwardOptions::keep_going is asked between passes.
  void work(std::span<ForwardRequest> requests);
  void work(Threads& /*threads*/, std::span<ForwardRequest> requests) override { work(requests); }
  DeviceAnswers* answers() override { return this; }
  Result<std::unique_ptr<DeviceAnswer>> answer(DecoderMemory& memory,
                                               const AnswerStart& start) override;
  void draw(std::span<DeviceAnswer* const> answers) override;
  Result<double> confidence(const DecoderMemory& memory) override;
  size_t bytes() const override { return weights_.bytes(); }
  bool has_kind(AttentionKind kind) const override {
    return kind == AttentionKind::kDense || kind == AttentionKind::kPrefix;
  }

  // A pass over the tokens of all requests, enqueued; take a lock of the accelerator first.
  struct PassOptions {
    int layers = 0;
    bool logits = false;      // after the last token of each request: logits()
    float* leave = nullptr;   // ... of the only request, here instead
    bool all_logits = false;  // after every token
    std::span<AttentionReadout* const>
        readouts;  // of each request, or null; all of the same layers
    std::function<void(int layer, const float* hidden_on_device)> on_layer;
  };
  Status run(std::span<const PassRun> requests, const PassOptions& options);
  const float* logits() const { return work_.logits.data(); }

  // Memory with room for so many tokens in all; the first `kept` of what is in it stay.
  Result<DecoderKeyValues*> room_for(std::shared_ptr<OnDevice>& memory, int64_t kept,
                                     int64_t tokens);

 private:
  friend class AnswerSteps;
  friend class CudaAnswer;
  // What a pass works in; rows are tokens.
  struct Work {
    int rows = 0;  // there is memory for
    DeviceMemory<int> ids;
    DeviceMemory<TokenPosition> positions;
    DeviceMemory<bf16> features;  // [1 + taps][visual tokens of the pass][hidden]
    DeviceMemory<float> cos;      // [rows][head_dim / 2]
    DeviceMemory<float> sin;
    DeviceMemory<float> hidden;  // [rows][hidden]
    DeviceMemory<bf16> narrow;   // [rows][hidden, or heads * head_dim]
    DeviceMemory<bf16> wide;     // [rows][queries, keys and values, or the inner layer]
    DeviceMemory<float> logits;  // [requests][vocab_size]
    DeviceMemory<RowPlace> row_places;
    DeviceMemory<AttentionSequence> sequences;
    DeviceMemory<AttentionSequence> parts;   // of a run that attends by prefix
    DeviceMemory<AttentionSequence> asking;  // the queries of a readout
    DeviceMemory<AttentionMassRange> ranges;
    DeviceMemory<float> mass;
  };
  // What decides the kernels of a pass.
  struct Pass {
    const int* ids = nullptr;  // [rows] each, on the device
    const TokenPosition* positions = nullptr;
    const RowPlace* places = nullptr;
    const AttentionSequence* sequences_at = nullptr;  // [sequences]
    std::vector<AttentionSequence> known;  // the same, of a pass that no graph is made of; or none
    int rows = 0;
    int sequences = 0;
    int max_count = 0;
    int max_keys = 0;  // rounded up, so that graphs serve longer
    int visual = 0;
    int taps = 0;
    int layers = 0;
    std::vector<int> last_rows;  // of each request
    // A run of which some layers attend by prefix: its texts and its images as sequences of their
    // own, which share keys and values.
    struct Prefix {
      const AttentionSchedule* attention = nullptr;
      int sequences = 0;
      int max_count = 0;
    } prefix;
    // Queries of which it is read out what they attend to.
    struct Asking {
      int sequences = 0;
      int max_queries = 0;
      int max_range = 0;
      std::vector<int> layers;
    } asking;
  };

  CudaDecoder(std::shared_ptr<CudaAccelerator> device, const TextConfig& config)
      : device_(std::move(device)), config_(config) {}
  // One request in chunks, with what is read out on the way.
  void work_alone(ForwardRequest& request);
  Result<bool> run_alone(ForwardRequest& request);  // false where it was stopped
  // Several that share a pass through the same layers; each alone, where that fails.
  void work_together(std::span<ForwardRequest* const> requests);
  Result<PassRun> start_together(ForwardRequest& request);
  Status run_together(std::span<ForwardRequest* const> requests, std::span<const PassRun> runs);
  Status grow(int rows);
  // Computes what prompts of up to so many tokens will compute, so that none waits for kernels that
  // are loaded or chosen when they are first used.
  Status warm_up(int rows);
  Status open_steps();
  Status place_rows(std::span<const PassRun> requests, Pass& pass);
  Status place_prefix(const PassRun& request, const AttentionSequence& whole, Pass& pass);
  Status gather_features(std::span<const PassRun> requests, std::vector<int>& ids, Pass& pass);
  int most_graph_rows(const Pass& pass);
  AngleJob angles_of(const Pass& pass);
  void embed(const Pass& pass);
  // Of what is embedded.
  void run_layers(const Pass& pass, const PassOptions& options);
  void run_layer(const Pass& pass, int index);
  void attend(const Pass& pass, int index);
  AttentionShape shape_of(const Pass& pass, int layer) const;
  void project(const DeviceMemory<float>& norm, const DeviceLinear& linear, int rows,
               MatmulFinish finish, void* y);
  // Of the queries that a readout asks for.
  AttentionShape asking_shape(const Pass& pass, int layer) const;
  Status start_readouts(std::span<const PassRun> requests,
                        std::span<AttentionReadout* const> readouts, Pass& pass);
  // What start_readouts() asked for, in the same order; there when the stream has been waited for.
  void download_readouts(std::span<AttentionReadout* const> readouts);
  Status write_logits(const Pass& pass, const PassOptions& options);

  std::shared_ptr<CudaAccelerator> device_;
  TextConfig config_;
  DeviceDecoderWeights weights_;
  Matmuls matmuls_;
  AttentionWorkspace attention_;
  Graphs graphs_;
  Staging staging_;
  Work work_;
  std::shared_ptr<AnswerSteps> steps_;
};

}  // namespace fovea
