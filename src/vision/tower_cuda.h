// SPDX-License-Identifier: Apache-2.0
// The tower on a GPU. Patches of several images go through it in one pass, each with its own
// memory; all that differs between passes of one shape lies in device memory, so that graphs serve.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "device/cuda/cuda_accelerator.h"
#include "device/cuda/graphs.h"
#include "device/cuda/staging.h"
#include "ops/attention/attention_rotary_cuda.h"
#include "ops/attention/sparse/kinds_cuda.h"
#include "ops/attention/sparse/schedule.h"
#include "ops/linear_cuda.h"
#include "ops/rows_cuda.h"
#include "vision/device_tower.h"

namespace fovea {

struct DeviceNorm {
  DeviceMemory<float> weight;
  DeviceMemory<float> bias;
  int size = 0;

  size_t bytes() const { return weight.bytes() + bias.bytes(); }
};

struct DeviceTowerBlock {
  DeviceNorm norm1;
  DeviceLinear qkv;
  DeviceLinear proj;
  DeviceNorm norm2;
  DeviceLinear fc1;
  DeviceLinear fc2;
};

struct DeviceMerger {
  DeviceNorm norm;
  DeviceLinear fc1;
  DeviceLinear fc2;
};

struct DeviceTowerWeights {
  // Of patches of two frames, for each half of their values; the first has the bias. In halves,
  // so that racecheck is silent in tests of small towers: it reports a race in cuBLASLt's kernels,
  // torch's among them, where sums are long.
  std::array<DeviceLinear, 2> patch_embed;
  DeviceLinear still_embed;  // of still images: both frames have the same values, so their weights
                             // are added up
  DeviceMemory<float> positions;
  DeviceMemory<float> levels;
  DeviceMemory<float> frequencies;  // tower_frequencies
  std::vector<DeviceTowerBlock> blocks;
  DeviceMerger merger;
  std::vector<DeviceMerger> deepstack;

  // There when the uploads have finished.
  Status upload(WeightUploads& uploads, const VisionConfig& config, const TowerWeights& weights);
  size_t bytes() const;
};

// Keys and values of some layers: [layers][heads][capacity][head_dim] each.
struct TowerKeyValues : OnDevice {
  DeviceMemory<bf16> keys;
  DeviceMemory<bf16> values;
  int capacity = 0;

  size_t bytes() const override { return keys.bytes() + values.bytes(); }
};

// Passes that wait for others to share them.
class PutOffWork {
 public:
  PutOffWork() = default;
  PutOffWork(const PutOffWork&) = delete;
  PutOffWork& operator=(const PutOffWork&) = delete;
  virtual ~PutOffWork() = default;
  virtual void start() = 0;  // enqueues all of it
};

// [1 + taps][count][width]: the features, then those of each tap.
struct TokensOnDevice : OnDevice {
  DeviceMemory<bf16> values;
  int taps = 0;
  PutOffWork* waits_for = nullptr;  // what writes the values, where it is not enqueued yet
  Status status = Done{};           // why they will not be there

  // Before work that reads the values is enqueued.
  Status be_enqueued() const {
    if (waits_for != nullptr) waits_for->start();
    return status;
  }

  size_t bytes() const override { return values.bytes(); }
};

// Patches that attend to each other by kinds stand in the order of their blocks; the four of a cell
// follow each other in it.
struct TowerOrder {
  AttentionSchedule attention;
  RowBlocks rows;
  std::vector<int> cells;  // cells[i]: which of the given cells stands at i

  TowerOrder(const AttentionSchedule& its_attention, RowBlocks its_rows);
  // Cells of an image, or of a crop of it that begins at (row, col).
  TowerOrder(const AttentionSchedule& its_attention, std::span<const Cell> given, int row, int col);
};

// Some patches of one image, which lie on the device one after the other with those of the other
// requests of a pass.
struct TowerRequest {
  int count = 0;
  Size canvas;
  TowerKeyValues* memory = nullptr;  // what is kept of the image; null: nothing is, nor was
  int kept = 0;                      // patches that are in it; those of the request come behind
  const float* key_bias = nullptr;   // [kept + count], on the device; or null
  // Of patches that stand in this order, and have nothing in memory: a pass of their own. Their
  // tokens come in the order of the given cells. Null: they attend densely.
  const TowerOrder* order = nullptr;
  TokensOnDevice* tokens =
      nullptr;  // where its tokens go, made by tokens_for(); null: to new memory
};

class CudaTower : public DeviceTower {
 public:
  static Result<std::shared_ptr<CudaTower>> make(const std::shared_ptr<CudaAccelerator>& device,
                                                 const VisionConfig& config,
                                                 const TowerWeights& weights);

  Result<VisualTokens> encode(Threads& threads, const Patches& patches, Size canvas,
                              TowerMemory& memory, const EncodeOptions& options) override;
  Result<VisualTokens> download(VisualTokens tokens) override;
  size_t bytes() const override { return weights_.bytes(); }
  bool has_kind(AttentionKind kind) const override;
  int width() const { return config_.out_hidden_size; }  // of a token

  // Where the patches of a pass are written before: bf16 [rows][kPatchValues], or half as many of a
  // still image (DevicePatches::frames), and their places.
  // Memory for so many is made where it is not there.
  struct Input {
    bf16* patches = nullptr;
    PatchPlace* places = nullptr;
  };
  Result<Input> input(int rows);
  // Memory for the tokens of some cells.
  Result<std::shared_ptr<TokensOnDevice>> tokens_for(int cells);
  // A request for patches that have these levels, with room for what is kept of them; its key_bias,
  // where options ask for one, is the caller's to upload: size_biases().
  Result<TowerRequest> request_for(std::span<const int> levels, Size canvas, TowerMemory& memory,
                                   const EncodeOptions& options);
  static float size_bias(int level) { return static_cast<float>(level * std::log(4.0)); }
  // log(4^level) of the patches in memory, then of those being encoded (tower_cpu.cc).
  static std::vector<float> size_biases(const TowerMemory& memory, std::span<const int> levels);
  // Where the biases of a pass go; good until the next call.
  Result<const float*> upload_biases(std::span<const float> biases);
  // Enqueues a pass over the patches of all requests, and gives the tokens of those that have no
  // memory for them. Take a lock of the accelerator first.
  Result<std::vector<VisualTokens>> run(std::span<const TowerRequest> requests,
                                        const EncodeOptions& options, int frames = 2);
  // For tests: attention by tensor cores where the device would not be given them.
  void use_tensor_cores() {
    attention_.set_tensor_cores(true);
    attention_kernels_ = KernelChoice::kBest;
  }

 private:
  // What a pass works in; rows are patches.
  struct Work {
    int rows = 0;                // there is memory for
    DeviceMemory<bf16> patches;  // [rows][kPatchValues]
    DeviceMemory<PatchPlace> places;
    DeviceMemory<float> cos;  // [rows][head_dim / 2]
    DeviceMemory<float> sin;
    DeviceMemory<float> hidden;  // [rows][hidden]
    DeviceMemory<bf16> narrow;   // [rows][hidden]
    DeviceMemory<bf16> wide;     // [rows][the widest row of a block]
    DeviceMemory<bf16> tokens;   // [1 + taps][rows / 4][out_hidden]
    TowerKeyValues passing;      // of one block, where nothing is kept
    DeviceMemory<RowPlace> row_places;
    DeviceMemory<AttentionSequence> sequences;
    DeviceMemory<float> key_bias;
    DeviceMemory<int> cells;  // of an order
  };
  // What decides the kernels of a pass.
  struct Pass {
    int rows = 0;
    int frames = 2;
    int sequences = 0;
    int max_count = 0;
    int max_keys = 0;
    bool kept = false;   // keys and values of each block have their own place
    bool fused = false;  // one kernel rotates and attends; no keys and values are written
    const TowerOrder* order = nullptr;  // of the one request
    AttentionSequence ordered;          // that request's
    // The sequences, where each sees itself alone and all are of one length: then all passes of
    // these counts have the same. Empty otherwise.
    std::vector<AttentionSequence> even;

    bool is_alone() const { return even.size() == 1; }
  };

  CudaTower(std::shared_ptr<CudaAccelerator> device, const VisionConfig& config)
      : device_(std::move(device)), config_(config) {}
  Status grow(int rows);
  // As CudaDecoder::warm_up, for images of up to so many patches.
  Status warm_up(int rows);
  AttentionShape shape_of(const Pass& pass) const;
  Status place_rows(std::span<const TowerRequest> requests, Pass& pass);
  Status place_order(const TowerRequest& request, const AttentionSequence& sequence, Pass& pass);
  Status place_keys(std::span<const TowerRequest> requests, const Pass& pass);
  void embed(std::span<const TowerRequest> requests, const Pass& pass);
  void run_blocks(const Pass& pass, const EncodeOptions& options);
  void run_block(const Pass& pass, int index);
  void attend(const Pass& pass, int index);
  void attend_by_kind(const Pass& pass, const AttentionShape& shape,
                      const SparseSettings& settings);
  void merge(const DeviceMerger& merger, int rows, bf16* out);
  void show_block(const Pass& pass, int index, const EncodeOptions& options);
  Result<TowerKeyValues*> room_for(TowerMemory& memory, int patches);
  void take_tokens(int first_cell, int cells, int all_cells, TokensOnDevice& tokens);

  std::shared_ptr<CudaAccelerator> device_;
  VisionConfig config_;
  DeviceTowerWeights weights_;
  Matmuls matmuls_;
  AttentionWorkspace attention_;
  SparseAttentionCuda sparse_;
  KernelChoice attention_kernels_ = KernelChoice::kPortable;
  Graphs graphs_;
  Staging staging_;
  Work work_;
};

}  // namespace fovea
