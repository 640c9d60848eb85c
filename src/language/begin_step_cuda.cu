// SPDX-License-Identifier: Apache-2.0
#include "language/begin_step_cuda.h"

#include "device/cuda/kernel.h"
#include "language/angle_parts_cuda.h"

namespace fovea {
namespace {

constexpr int kStartThreads = 256;

// A block moves one sequence on.
__global__ void __launch_bounds__(kStartThreads) begin_step(StepStart start) {
  let_next_start();
  const auto s = static_cast<int>(blockIdx.x);
  const auto thread = static_cast<int>(threadIdx.x);
  const int id = __ldcg(start.ids + s);
  const int moves = start.moves[s];
  TokenPosition position = start.positions[s];
  const auto by = static_cast<float>(moves);
  position = {position.time + by, position.row + by, position.col + by};
  const bf16* from = start.table + int64_t{id} * start.cols;
  float* to = start.hidden + int64_t{s} * start.cols;
  for (int c = thread * 8; c < start.cols; c += 8 * kStartThreads) {
    const uint4 eight = __ldg(reinterpret_cast<const uint4*>(from + c));
    auto* four = reinterpret_cast<float4*>(to + c);
    four[0] =
        make_float4(first_of(eight.x), second_of(eight.x), first_of(eight.y), second_of(eight.y));
    four[1] =
        make_float4(first_of(eight.z), second_of(eight.z), first_of(eight.w), second_of(eight.w));
  }
  for (int i = thread; i < start.angles.half; i += kStartThreads)
    rotary_angle(start.angles, s, i, position);
  __syncthreads();  // all have read the position
  if (thread != 0) return;
  start.positions[s] = position;
  start.places[s].position += moves;
  start.sequences_at[s].key_count += moves;
  start.sequences_at[s].first_query += moves;
}

}  // namespace

void begin_step_cuda(cudaStream_t stream, const StepStart& start) {
  launch(begin_step,
         {.grid = static_cast<unsigned>(start.sequences), .block = kStartThreads, .stream = stream},
         start);
}

}  // namespace fovea
