// SPDX-License-Identifier: Apache-2.0
// The kinds of attention on a GPU: attend_by_kind(), for the rows of one sequence that see
// themselves alone.
#pragma once

#include <span>
#include <vector>

#include "device/cuda/kernel_choice.h"
#include "device/cuda/staging.h"
#include "ops/attention/sparse/kinds.h"
#include "ops/attention/sparse/sparse_cuda.h"

namespace fovea {

// Whether patches can attend by this kind on a GPU that has tensor cores.
bool has_cuda_form(AttentionKind kind);

class SparseAttentionCuda {
 public:
  // What the device has. Once, before all else.
  Status open();

  // Tells the device of rows, whose keys have these biases, or none; the same for all of a block.
  // Memory is made for what attends by these kinds. An error where rows are too scattered.
  Status place(Stream& stream, Staging& staging, const RowBlocks& rows,
               std::span<const float> key_bias, int heads, int head_dim,
               std::span<const SparseSettings> kinds);

  // What one layer attends from: rows in the order they were placed in.
  struct Job {
    const bf16* q = nullptr;  // [rows][heads][head_dim]
    int64_t q_stride = 0;
    const bf16* keys = nullptr;  // [heads][capacity][head_dim]
    const bf16* values = nullptr;
    int capacity = 0;
    float scale = 1;
    bf16* out = nullptr;
    int64_t out_stride = 0;
  };
  // Enqueues it, of a kind that has_cuda_form() but dense.
  void attend(cudaStream_t stream, const Job& job, const SparseSettings& settings);

  // For tests and benches: what attend() launches.
  struct Parts {
    SparseCall call;
    GroupMeans means;
    bool chooses = false;  // by choose_blocks_cuda
    bool pools = false;    // by mean_groups_cuda
  };
  Parts parts_of(const Job& job, const SparseSettings& settings);
  void attend_to(cudaStream_t stream, const SparseCall& call) const;
  bool has_warpgroups() const { return warpgroups_; }
  size_t shared_bytes() const { return shared_bytes_; }

 private:
  int count_in_full(const SparseSettings& settings) const;
  Status fits(std::span<const SparseSettings> kinds) const;
  Status make_room(std::span<const SparseSettings> kinds);
  Status upload(Stream& stream, Staging& staging, const RowBlocks& rows,
                std::span<const float> key_bias);

  int multiprocessors_ = 1;
  bool warpgroups_ = false;
  size_t shared_bytes_ = 0;  // that a block of threads may have
  int heads_ = 0;
  int head_dim_ = 0;
  int blocks_ = 0;
  int rows_ = 0;
  bool whole_ = false;  // every block has 64 rows, and no keys have biases
  bool has_biases_ = false;
  RowBlocks given_;  // its groups and blocks
  DeviceMemory<RowSpan> spans_;
  DeviceMemory<RowSpan> groups_;
  DeviceMemory<float> coarse_biases_;
  DeviceMemory<float> strided_biases_;
  DeviceMemory<uint32_t> places_;
  DeviceMemory<RowSpan> window_lists_;  // [blocks][9]
  DeviceMemory<int> window_counts_;
  DeviceMemory<bf16> means_;  // queries, keys, values
  DeviceMemory<RowSpan> chosen_;
  DeviceMemory<unsigned> in_full_;
};

}  // namespace fovea
