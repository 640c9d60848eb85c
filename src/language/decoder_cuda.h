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
#include "ops/attention_cuda.h"
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
  DeviceLinear gate_up;  // rows by turns
  DeviceLinear down;
};

struct DeviceDecoderWeights {
  DeviceLinear embedding;
  DeviceLinear own_head;  // empty where it is the embedding
  DeviceMemory<float> norm;
  DeviceMemory<float> frequencies;  // text_frequencies
  std::vector<DeviceDecoderLayer> layers;

  Status upload(Stream& stream, const TextConfig& config, const DecoderWeights& weights);
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

// Some tokens of one sequence, that follow what its memory holds.
struct DecoderRequest {
  std::span<const int> ids;
  std::span<const TokenPosition> positions;
  std::span<const VisualSpan> visual;  // `at` counts from the first of these tokens
  DecoderKeyValues* memory = nullptr;  // with room for them
  int kept = 0;                        // tokens that are in it before
};

struct AnswerSteps;

class CudaDecoder : public DeviceDecoder, public std::enable_shared_from_this<CudaDecoder> {
 public:
  static Result<std::shared_ptr<CudaDecoder>> make(std::shared_ptr<CudaAccelerator> device,
                                                   const TextConfig& config,
                                                   const DecoderWeights& weights);

  Result<bool> work(const TokenRun& run, DecoderMemory& memory, const DecodeOptions& options,
                    Buffer<float>* logits) override;
  Result<std::unique_ptr<DeviceAnswer>> answer(const DecoderMemory& memory,
                                               const AnswerStart& start) override;
  Result<double> confidence(const DecoderMemory& memory) override;
  size_t bytes() const override { return weights_.bytes(); }

  // A pass over the tokens of all requests, enqueued; take a turn of the accelerator first.
  struct PassOptions {
    int layers = 0;
    bool logits = false;                  // after the last token of each request: logits()
    float* leave = nullptr;               // ... of the only request, here instead
    bool all_logits = false;              // after every token
    AttentionReadout* readout = nullptr;  // of the only request
    std::function<void(int layer, const float* hidden_on_device)> on_layer;
  };
  Status run(std::span<const DecoderRequest> requests, const PassOptions& options);
  const float* logits() const { return work_.logits.data(); }

  // Memory with room for so many tokens in all; the first `kept` of what is in it stay.
  Result<DecoderKeyValues*> room_for(std::shared_ptr<OnDevice>& memory, int64_t kept,
                                     int64_t tokens);

 private:
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
    int rows = 0;
    int sequences = 0;
    int max_count = 0;
    int max_keys = 0;  // rounded up, so that graphs serve longer
    int visual = 0;
    int taps = 0;
    int layers = 0;
    std::vector<int> last_rows;  // of each request
  };

  CudaDecoder(std::shared_ptr<CudaAccelerator> device, const TextConfig& config)
      : device_(std::move(device)), config_(config) {}
  Status grow(int rows);
  Status place_rows(std::span<const DecoderRequest> requests, Pass& pass);
  Status gather_features(std::span<const DecoderRequest> requests, std::vector<int>& ids,
                         Pass& pass);
  AngleJob angles_of(const Pass& pass);
  void embed(const Pass& pass);
  // Of what is embedded.
  void run_layers(const Pass& pass, const PassOptions& options);
  void run_layer(const Pass& pass, int index, const PassOptions& options);
  void attend(const Pass& pass, int index, const PassOptions& options);
  AttentionShape shape_of(const Pass& pass, int layer) const;
  void project(const DeviceMemory<float>& norm, const DeviceLinear& linear, int rows,
               MatmulFinish finish, void* y);
  // Of the queries that a readout asks for.
  AttentionShape asking_shape(const Pass& pass, const AttentionReadout& readout, int layer) const;
  Status start_readout(const DecoderRequest& request, const Pass& pass,
                       const AttentionReadout& readout);
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
