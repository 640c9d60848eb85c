// SPDX-License-Identifier: Apache-2.0
#include "language/angles_cuda.h"

#include "language/angle_parts_cuda.h"

namespace fovea {
namespace {

__global__ void rotary_angles(AngleJob job) {
  let_next_start();
  wait_for_previous();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= int64_t{job.count} * job.half) return;
  const int64_t row = at / job.half;
  rotary_angle(job, row, static_cast<int>(at % job.half), job.positions[row]);
}

}  // namespace

void rotary_angles_cuda(cudaStream_t stream, const AngleJob& job) {
  constexpr int kBlock = 128;
  const int64_t values = int64_t{job.count} * job.half;
  if (values == 0) return;
  launch(rotary_angles,
         {.grid = static_cast<unsigned>(ceil_div<int64_t>(values, kBlock)),
          .block = kBlock,
          .stream = stream,
          .overlaps = true},
         job);
}

}  // namespace fovea
