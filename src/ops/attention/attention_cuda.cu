// SPDX-License-Identifier: Apache-2.0
// Which kernel attention takes.
#include "ops/attention/attention_cuda.h"

#include <algorithm>

#include "base/check.h"
#include "device/cuda/kernel.h"
#include "ops/attention/attention_kernels_cuda.h"
#include "ops/attention/attention_long_cuda.h"

namespace fovea {
namespace {

// Parts of 64 rows of 128 values, a largest score and a sum; kernels split keys until two blocks
// are there for each multiprocessor.
constexpr size_t kPartFloats = size_t{64} * (128 + 2);
constexpr int kPartsOfMultiprocessor = 2;
// From here on rows are enough for a tensor core's 16.
constexpr int kFewRows = 4;
// From here on the large blocks of attention_long_cuda win over small ones.
constexpr int kLongQueries = 320;

}  // namespace

Status AttentionWorkspace::open(cudaStream_t stream, size_t floats) {
  int device = 0;
  int shared = 0;
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return cuda_error("the device's properties", error);
  multiprocessors_ = properties.multiProcessorCount;
  tensor_cores_ = properties.major >= 8 && attention_flash_is_compiled();
  clusters_ = attention_clusters_are_compiled();
  warpgroups_ = attention_long_is_compiled();
  shared_bytes_ = static_cast<size_t>(shared);
  const auto parts = static_cast<size_t>(multiprocessors_ * kPartsOfMultiprocessor);
  if (Status made = parts_.at_least(std::max(floats, parts * kPartFloats)); !made) return made;
  if (Status made = done_.at_least(parts); !made) return made;
  cudaMemsetAsync(done_.data(), 0, done_.bytes(), stream);
  return Done{};
}

int attention_splits(const AttentionShape& shape, int blocks, int wanted, const SplitRule& rule) {
  const int useful = shape.max_key_count <= rule.whole ? 1 : shape.max_key_count / rule.least;
  return std::max(1, std::min({kMostSplits, useful, wanted / blocks}));
}

AttentionCall attention_call(const AttentionShape& shape, const AttentionSequence* sequences,
                             const bf16* q, int64_t q_stride, bf16* out, int64_t out_stride) {
  FOVEA_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  FOVEA_CHECK(shape.head_dim > 0 && shape.head_dim % 4 == 0 && shape.head_dim <= 128);
  FOVEA_CHECK(q_stride % 4 == 0 && out_stride % 4 == 0 && shape.scale > 0);
  return {.sequences = sequences,
          .q = q,
          .q_stride = q_stride,
          .out = out,
          .out_stride = out_stride,
          .kv_heads = shape.kv_heads,
          .group = shape.heads / shape.kv_heads,
          .head_dim = shape.head_dim,
          .scale = shape.scale * kLog2E,
          .causal = shape.causal,
          .layer = shape.layer,
          .splits = 1,
          .parts = nullptr,
          .done = nullptr};
}

void attention_cuda(cudaStream_t stream, const AttentionShape& shape,
                    const AttentionSequence* sequences_on_device, const bf16* q, int64_t q_stride,
                    bf16* out, int64_t out_stride, AttentionWorkspace& workspace,
                    KernelChoice choice) {
  if (shape.sequences <= 0 || shape.max_q_count <= 0) return;
  const AttentionCall call =
      attention_call(shape, sequences_on_device, q, q_stride, out, out_stride);
  const bool tensor_cores = choice == KernelChoice::kBest && workspace.tensor_cores() &&
                            shape.head_dim % 8 == 0 && q_stride % 8 == 0 && out_stride % 8 == 0;
  if (shape.max_q_count * call.group <= kFewRows)
    attention_decode_cuda(stream, shape, call, workspace);
  else if (tensor_cores && attention_short_takes(shape, call, workspace))
    attention_short_cuda(stream, shape, call, workspace);
  else if (tensor_cores)
    attention_flash_cuda(stream, shape, call, workspace);
  else
    attention_portable_cuda(stream, shape, call, workspace);
}

bool attention_known_is_long(const AttentionShape& shape, std::span<const AttentionSequence> known,
                             int64_t q_stride, AttentionWorkspace& workspace, KernelChoice choice) {
  const AttentionCall call = attention_call(shape, nullptr, nullptr, q_stride, nullptr, 0);
  return choice == KernelChoice::kBest && !known.empty() &&
         !attention_short_takes(shape, call, workspace) &&
         std::all_of(
             known.begin(), known.end(),
             [](const AttentionSequence& sequence) { return sequence.q_count >= kLongQueries; }) &&
         attention_long_takes(shape, known, q_stride, workspace);
}

void attention_known_cuda(cudaStream_t stream, const AttentionShape& shape,
                          std::span<const AttentionSequence> known,
                          const AttentionSequence* sequences_on_device, const bf16* q,
                          int64_t q_stride, bf16* out, int64_t out_stride,
                          AttentionWorkspace& workspace, KernelChoice choice) {
  if (!attention_known_is_long(shape, known, q_stride, workspace, choice) ||
      !attention_long_cuda(stream, shape, known, q, q_stride, out, out_stride, workspace))
    attention_cuda(stream, shape, sequences_on_device, q, q_stride, out, out_stride, workspace,
                   choice);
}

}  // namespace fovea
