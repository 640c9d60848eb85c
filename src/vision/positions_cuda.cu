// SPDX-License-Identifier: Apache-2.0
#include "vision/positions_cuda.h"

#include "device/cuda/kernel.h"

namespace fovea {
namespace {

struct AxisPair {
  int index[2];
  float weight[2];
};

// As positions.cc has it: the order of the steps decides the last bit.
__device__ AxisPair axis_pair(float place, int extent, int side) {
  const float at = __fdiv_rn(__fmul_rn(place, static_cast<float>(side - 1)),
                             static_cast<float>(max(extent - 1, 1)));
  const float floor = floorf(at);
  const int first = static_cast<int>(floor);
  AxisPair pair{};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    pair.index[i] = min(max(first + i, 0), side - 1);
    pair.weight[i] =
        fmaxf(0.0f, __fsub_rn(1.0f, fabsf(__fsub_rn(__fsub_rn(at, floor), static_cast<float>(i)))));
  }
  return pair;
}

__device__ float4 weighed(float4 sum, float weight, float4 entry) {
  return make_float4(sum.x + weight * entry.x, sum.y + weight * entry.y, sum.z + weight * entry.z,
                     sum.w + weight * entry.w);
}

// One block a patch.
__global__ void add_places(const PatchPlace* places, int rows, int cols, PlaceTables tables,
                           float* x) {
  let_next_start();
  wait_for_previous();
  const PatchPlace place = places[blockIdx.x];
  const AxisPair row = axis_pair(place.row, rows, tables.side);
  const AxisPair col = axis_pair(place.col, cols, tables.side);
  const int level = min(place.level, tables.level_rows - 1);
  const int quads = tables.width / 4;
  auto* out = reinterpret_cast<float4*>(x) + static_cast<int64_t>(blockIdx.x) * quads;
  const auto* table = reinterpret_cast<const float4*>(tables.positions);
  for (int c = static_cast<int>(threadIdx.x); c < quads; c += static_cast<int>(blockDim.x)) {
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t entry = int64_t{row.index[i / 2]} * tables.side + col.index[i % 2];
      sum = weighed(sum, row.weight[i / 2] * col.weight[i % 2], table[entry * quads + c]);
    }
    if (level > 0)  // the row of level 0 is zero
      sum = weighed(sum, 1.0f,
                    reinterpret_cast<const float4*>(tables.levels)[int64_t{level} * quads + c]);
    out[c] = weighed(__ldcg(out + c), 1.0f, sum);
  }
}

__global__ void make_angles(const PatchPlace* places, int count, const float* frequencies,
                            int quarter, float* cos, float* sin) {
  let_next_start();
  wait_for_previous();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= int64_t{count} * 2 * quarter) return;
  const PatchPlace place = places[at / (2 * quarter)];
  const int i = static_cast<int>(at % (2 * quarter));
  const float angle = (i < quarter ? place.row : place.col) * frequencies[i % quarter];
  cos[at] = cosf(angle);
  sin[at] = sinf(angle);
}

}  // namespace

void add_places_cuda(cudaStream_t stream, const PatchPlace* places, int count, Size canvas,
                     const PlaceTables& tables, float* x) {
  if (count == 0) return;
  launch(add_places,
         {.grid = static_cast<unsigned>(count), .block = 128, .stream = stream, .overlaps = true},
         places, canvas.height_px / kPatchPx, canvas.width_px / kPatchPx, tables, x);
}

void rotary_angles_cuda(cudaStream_t stream, const PatchPlace* places, int count,
                        const float* frequencies, int quarter, float* cos, float* sin) {
  constexpr int kBlock = 256;
  const int64_t values = int64_t{count} * 2 * quarter;
  if (values == 0) return;
  launch(make_angles,
         {.grid = static_cast<unsigned>(ceil_div<int64_t>(values, kBlock)),
          .block = kBlock,
          .stream = stream,
          .overlaps = true},
         places, count, frequencies, quarter, cos, sin);
}

}  // namespace fovea
