// SPDX-License-Identifier: Apache-2.0
// Small kernels that use one part of the dialect each, so that its test can hold a device, or the
// emulation of one, to what the dialect means.
#pragma once

#include "device/cuda/runtime.h"

namespace fovea {

// sums[b] = the sum of the values of block b.
void sum_blocks_cuda(cudaStream_t stream, const float* values, int count, int block, float* sums);
// Each warp's values in reverse order, plus how many of them are odd.
void reverse_warps_cuda(cudaStream_t stream, const int* values, int blocks, int block,
                        int* reversed);
// total[0] = how many values are even, added up by the block that ends last; `done` and total[0..
// blocks] are zero before.
void count_even_cuda(cudaStream_t stream, const int* values, int blocks, int block, unsigned* done,
                     int* total);
// sums[b * block + i] = the sum over the blocks of b's cluster of rank * their i-th value; from
// sm_90 on.
void sum_clusters_cuda(cudaStream_t stream, const float* values, int blocks, int block, int cluster,
                       float* sums);

// shifted[b * block + i] = the i-th value of the block before b in its cluster, the last of it
// where b is the first; from sm_90 on.
void shift_clusters_cuda(cudaStream_t stream, const float2* values, int blocks, int block,
                         int cluster, float2* shifted);

}  // namespace fovea
