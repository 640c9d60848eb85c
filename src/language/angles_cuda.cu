// SPDX-License-Identifier: Apache-2.0
#include "language/angles_cuda.h"

#include "device/cuda/kernel.h"

namespace fovea {
namespace {

__global__ void turn_angles(AngleJob job) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= int64_t{job.count} * job.half) return;
  const TokenPosition position = job.positions[at / job.half];
  const int i = static_cast<int>(at % job.half);
  float along = position.time;
  if (i % 3 == 1 && i < job.row_end) along = position.row;
  if (i % 3 == 2 && i < job.col_end) along = position.col;
  const float angle = along * job.frequencies[i];
  job.cos[at] = cosf(angle);
  job.sin[at] = sinf(angle);
}

}  // namespace

void turn_angles_cuda(cudaStream_t stream, const AngleJob& job) {
  constexpr int kBlock = 128;
  const int64_t values = int64_t{job.count} * job.half;
  if (values == 0) return;
  launch(turn_angles,
         {.grid = static_cast<unsigned>(ceil_div<int64_t>(values, kBlock)),
          .block = kBlock,
          .stream = stream},
         job);
}

}  // namespace fovea
