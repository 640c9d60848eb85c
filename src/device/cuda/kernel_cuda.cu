// SPDX-License-Identifier: Apache-2.0
// Kernels that show what the dialect means, for its test.
#include "device/cuda/cluster.h"
#include "device/cuda/kernel_cuda.h"

namespace fovea {
namespace {

__global__ void sum_blocks(const float* values, int count, float* sums) {
  __shared__ float parts[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int at = static_cast<int>(blockIdx.x * blockDim.x) + thread;
  const float sum = warp_sum(at < count ? values[at] : 0.0f);
  if (thread % 32 == 0) parts[thread / 32] = sum;
  __syncthreads();
  if (thread >= 32) return;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const float all = warp_sum(thread < warps ? parts[thread] : 0.0f);
  if (thread == 0) sums[blockIdx.x] = all;
}

__global__ void reverse_warps(const int* values, int* reversed) {
  int* shared = dynamic_shared<int>();
  const int thread = static_cast<int>(threadIdx.x);
  shared[thread] = values[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  const int taken = __shfl_sync(kAllLanes, shared[thread], 31 - thread % 32);
  const unsigned odd = __ballot_sync(kAllLanes, taken & 1);
  reversed[blockIdx.x * blockDim.x + threadIdx.x] = taken + __popc(odd);
}

__global__ void count_by_last_block(const int* values, unsigned* done, int* total) {
  __shared__ bool last;
  const int even = __syncthreads_count(values[blockIdx.x * blockDim.x + threadIdx.x] % 2 == 0);
  if (threadIdx.x == 0) {
    atomicAdd(&total[1 + blockIdx.x], even);
    __threadfence();
    last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) atomicAdd(total, total[1 + i]);
}

__global__ void sum_clusters(const float* values, int size, float* sums) {
  auto* shared = dynamic_shared<float4>();
  const int thread = static_cast<int>(threadIdx.x);
  const auto at = static_cast<int>(blockIdx.x * blockDim.x) + thread;
  shared[thread] = make_float4(values[at], 0, 0, static_cast<float>(rank_in_cluster()));
  sync_cluster();
  float sum = 0;
  for (int rank = 0; rank < size; ++rank) {
    const float4 one = load_of_rank(shared + thread, rank);
    sum += one.x * one.w;
  }
  sums[at] = sum;
  leave_cluster();
}

__global__ void shift_clusters(const float2* values, int size, float2* shifted) {
  auto* shared = dynamic_shared<float2>();
  begin_cluster();
  const int thread = static_cast<int>(threadIdx.x);
  const auto at = static_cast<int>(blockIdx.x * blockDim.x) + thread;
  const float2 value = values[at];
  wait_for_cluster();
  store_at_rank(shared + thread, (rank_in_cluster() + 1) % size, value);
  sync_cluster();
  shifted[at] = shared[thread];
}

}  // namespace

void sum_blocks_cuda(cudaStream_t stream, const float* values, int count, int block, float* sums) {
  const auto blocks = static_cast<unsigned>(ceil_div(count, block));
  launch(sum_blocks, {.grid = blocks, .block = static_cast<unsigned>(block), .stream = stream},
         values, count, sums);
}

void reverse_warps_cuda(cudaStream_t stream, const int* values, int blocks, int block,
                        int* reversed) {
  launch(reverse_warps,
         {.grid = static_cast<unsigned>(blocks),
          .block = static_cast<unsigned>(block),
          .shared_bytes = static_cast<size_t>(block) * sizeof(int),
          .stream = stream},
         values, reversed);
}

void count_even_cuda(cudaStream_t stream, const int* values, int blocks, int block, unsigned* done,
                     int* total) {
  launch(count_by_last_block,
         {.grid = static_cast<unsigned>(blocks),
          .block = static_cast<unsigned>(block),
          .stream = stream},
         values, done, total);
}

void sum_clusters_cuda(cudaStream_t stream, const float* values, int blocks, int block, int cluster,
                       float* sums) {
  launch(sum_clusters,
         {.grid = static_cast<unsigned>(blocks),
          .block = static_cast<unsigned>(block),
          .shared_bytes = static_cast<size_t>(block) * sizeof(float4),
          .stream = stream,
          .cluster = cluster},
         values, cluster, sums);
}

void shift_clusters_cuda(cudaStream_t stream, const float2* values, int blocks, int block,
                         int cluster, float2* shifted) {
  launch(shift_clusters,
         {.grid = static_cast<unsigned>(blocks),
          .block = static_cast<unsigned>(block),
          .shared_bytes = static_cast<size_t>(block) * sizeof(float2),
          .stream = stream,
          .cluster = cluster},
         values, cluster, shifted);
}

}  // namespace fovea
