// SPDX-License-Identifier: Apache-2.0
// Attention on the GPU: packed sequences of different lengths in one pass, in bf16 with f32
// arithmetic. The meaning is that of ops/attention.h.
#pragma once

#include <span>

#include "device/cuda/bf16.h"
#include "device/cuda/kernel_choice.h"
#include "device/cuda/stream.h"

namespace fovea {

// One sequence, in the memory of the device: what it says is read when the kernels run, so that a
// graph can be replayed while key_count and first_query grow.
struct alignas(16) AttentionSequence {
  int q_begin = 0;               // its rows of q and out
  int q_count = 0;               // none: nothing is written
  const bf16* keys = nullptr;    // [kv_heads][capacity][head_dim]
  const bf16* values = nullptr;  // the same
  int capacity = 0;
  int key_count = 0;                // the keys it may see
  int first_query = 0;              // causal: query i sees the keys [0, first_query + i]
  const float* key_bias = nullptr;  // [key_count], added to the scaled products; or null
};

// What is known when the work is enqueued. The largest counts are upper bounds.
struct AttentionShape {
  int sequences = 1;
  int max_q_count = 0;
  int max_key_count = 0;  // a hint: more keys are seen too, less evenly spread over the device
  int heads = 0;          // a multiple of kv_heads, which they share in order
  int kv_heads = 0;
  int head_dim = 0;  // a multiple of 4, at most 128
  float scale = 1;   // of q . k, above 0
  bool causal = false;
  // Keys and values are those of this layer of [layers][kv_heads][capacity][head_dim].
  int layer = 0;
};

// Memory for results that several blocks share, and what is known of the device. One workspace
// serves any shape, but only one stream at a time.
class AttentionWorkspace {
 public:
  // On the current device. `floats` where attention_mass_cuda needs more (attention_mass_floats).
  Status open(cudaStream_t stream, size_t floats = 0);

  float* parts() { return parts_.data(); }
  size_t part_floats() const { return parts_.size(); }
  unsigned* done() { return done_.data(); }
  int multiprocessors() const { return multiprocessors_; }
  bool tensor_cores() const { return tensor_cores_; }
  // For tests: the kernels with tensor cores where the device would not be given them.
  void set_tensor_cores(bool has) { tensor_cores_ = has; }
  // Whether blocks can be clusters.
  bool clusters() const { return clusters_; }
  // Whether four warps can multiply together (warpgroup.h).
  bool warpgroups() const { return warpgroups_; }
  // That a block can have.
  size_t shared_bytes() const { return shared_bytes_; }

 private:
  DeviceMemory<float> parts_;
  DeviceMemory<unsigned> done_;  // zero before and after each kernel
  int multiprocessors_ = 0;
  bool tensor_cores_ = false;
  bool clusters_ = false;
  bool warpgroups_ = false;
  size_t shared_bytes_ = 0;
};

// out[q_begin + i] = the attention of query q[q_begin + i]; rows of q and out are
// [heads][head_dim], so many values apart, and begin at multiples of 4 values (of 8 for the fast
// kernels).
void attention_cuda(cudaStream_t stream, const AttentionShape& shape,
                    const AttentionSequence* sequences_on_device, const bf16* q, int64_t q_stride,
                    bf16* out, int64_t out_stride, AttentionWorkspace& workspace,
                    KernelChoice choice);

// The same where the host knows the sequences too: where all are long and have no bias, by
// attention_long_cuda, on devices that have warpgroups; otherwise, and where none are `known`, by
// attention_cuda. What is known here must hold when the kernels run: no graph may be replayed with
// other counts.
void attention_known_cuda(cudaStream_t stream, const AttentionShape& shape,
                          std::span<const AttentionSequence> known,
                          const AttentionSequence* sequences_on_device, const bf16* q,
                          int64_t q_stride, bf16* out, int64_t out_stride,
                          AttentionWorkspace& workspace, KernelChoice choice);

// Whether the sequences go to attention_long_cuda.
bool attention_known_is_long(const AttentionShape& shape, std::span<const AttentionSequence> known,
                             int64_t q_stride, AttentionWorkspace& workspace, KernelChoice choice);

// Of which keys of a sequence the mass is asked for, and where it goes.
struct AttentionMassRange {
  int key_begin = 0;
  int key_end = 0;  // at most key_count; none where it is not above key_begin
  float* mass = nullptr;
  float share = 1;   // mass[t - key_begin] = share * the mean softmax weight of key t
  bool add = false;  // plus what is there
};

// How much the queries of each sequence attend to the keys of its range, averaged over queries and
// heads (attention_mass). `max_range` is the most keys of a range.
void attention_mass_cuda(cudaStream_t stream, const AttentionShape& shape,
                         const AttentionSequence* sequences_on_device,
                         const AttentionMassRange* ranges_on_device, int max_range, const bf16* q,
                         int64_t q_stride, AttentionWorkspace& workspace);
// What it needs of a workspace.
size_t attention_mass_floats(const AttentionShape& shape, int max_range);

}  // namespace fovea
