// SPDX-License-Identifier: Apache-2.0
// Products without tensor cores, step by step from a plain kernel to the one that is used.
//
// y = x w^T: a block owns kM rows of x by kN rows of w and walks k in parts of 16. Both parts lie
// in shared memory as floats, transposed ([16][kM] and [16][kN]), so that a thread reads four of
// its rows at once. Lanes of a warp stand 8 rows by 4 columns; a thread owns kTall x kBroad squares
// of 4 x 4 outputs. Sums are f32, over k in order.
#include "base/check.h"
#include "ops/matmul_finish_cuda.h"

namespace fovea {
namespace {

constexpr int kPart = 16;  // of k

// One output a thread, 16 x 16 a block.
__global__ void plain_product(MatmulJob job) {
  __shared__ float x[kPart][kPart];
  __shared__ float w[kPart][kPart];
  wait_for_previous();
  const auto across = static_cast<int>(threadIdx.x) % kPart;
  const auto down = static_cast<int>(threadIdx.x) / kPart;
  const int row = static_cast<int>(blockIdx.y) * kPart + down;
  const int col = static_cast<int>(blockIdx.x) * kPart + across;
  const int w_row = static_cast<int>(blockIdx.x) * kPart + down;
  float sum = 0;
  for (int part = 0; part < job.k; part += kPart) {
    const int c = part + across;
    x[down][across] = row < job.rows && c < job.k ? to_float(job.x[row * job.x_stride + c]) : 0.0f;
    w[down][across] =
        w_row < job.n && c < job.k ? to_float(job.w[int64_t{w_row} * job.k + c]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < kPart; ++i) sum += x[down][i] * w[across][i];
    __syncthreads();
  }
  const float second = __shfl_down_sync(kAllLanes, sum, 1);
  const float third = __shfl_down_sync(kAllLanes, sum, 2);
  const float fourth = __shfl_down_sync(kAllLanes, sum, 3);
  if (row < job.rows && across % 4 == 0)
    finish_four(job, row, col, make_float4(sum, second, third, fourth), writes_wide(job));
}

template <int kWarpsDown, int kWarpsAcross, int kTallSquares, int kBroadSquares, GemmStep kItsStep>
struct Gemm {
  static constexpr GemmStep kStep = kItsStep;
  static constexpr int kTall = kTallSquares;
  static constexpr int kBroad = kBroadSquares;
  static constexpr int kAcross = kWarpsAcross;
  static constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
  static constexpr int kM = kWarpsDown * 32 * kTall;
  static constexpr int kN = kWarpsAcross * 16 * kBroad;
  static constexpr int kPad = kStep >= GemmStep::kPadded ? 4 : 0;
  static constexpr int kStages = kStep >= GemmStep::kDoubleBuffer ? 2 : 1;
  static constexpr int kStageFloats = kPart * (kM + kPad + kN + kPad);
};

// Rows [first, first + kCount) of a matrix of which a part of k is brought to shared memory.
template <int kThreads, int kCount, int kStride>
struct Operand {
  static constexpr int kLoads = (kCount * 2 + kThreads - 1) / kThreads;

  const bf16* values;
  int64_t stride;
  int first;
  int rows;
  int k;
  uint4 held[kLoads];

  // Neighbouring threads take neighbouring rows: their stores go to different banks.
  __device__ void load(int part) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      const int row = first + at % kCount;
      const int c = part + at / kCount * 8;
      held[i] = at < kCount * 2 && row < rows && c < k
                    ? *reinterpret_cast<const uint4*>(values + row * stride + c)
                    : uint4{};
    }
  }
  __device__ void store(float* shared) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      if (at >= kCount * 2) break;
      float* to = shared + at / kCount * 8 * kStride + at % kCount;
      const uint32_t pairs[4] = {held[i].x, held[i].y, held[i].z, held[i].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        to[2 * j * kStride] = first_of(pairs[j]);
        to[(2 * j + 1) * kStride] = second_of(pairs[j]);
      }
    }
  }
  // Two bytes at a time.
  __device__ void copy(int part, float* shared) const {
#pragma unroll
    for (int at = static_cast<int>(threadIdx.x); at < kCount * kPart; at += kThreads) {
      const int row = first + at / kPart;
      const int c = part + at % kPart;
      shared[at % kPart * kStride + at / kPart] =
          row < rows && c < k ? to_float(values[row * stride + c]) : 0.0f;
    }
  }
};

template <class G>
__device__ __forceinline__ void multiply_part(const float* x, const float* w,
                                              float (&sums)[4 * G::kTall][4 * G::kBroad]) {
#pragma unroll
  for (int c = 0; c < kPart; ++c) {
    float a[4 * G::kTall];
    float b[4 * G::kBroad];
#pragma unroll
    for (int i = 0; i < G::kTall; ++i)
      *reinterpret_cast<float4*>(a + 4 * i) =
          *reinterpret_cast<const float4*>(x + c * (G::kM + G::kPad) + 32 * i);
#pragma unroll
    for (int j = 0; j < G::kBroad; ++j)
      *reinterpret_cast<float4*>(b + 4 * j) =
          *reinterpret_cast<const float4*>(w + c * (G::kN + G::kPad) + 16 * j);
#pragma unroll
    for (int i = 0; i < 4 * G::kTall; ++i)
#pragma unroll
      for (int j = 0; j < 4 * G::kBroad; ++j) sums[i][j] += a[i] * b[j];
  }
}

template <class G>
__global__ void __launch_bounds__(G::kThreads, G::kThreads == 256 ? 2 : 4)
    blocked_product(MatmulJob job) {
  __shared__ float4 quads[G::kStages * G::kStageFloats / 4];
  auto* shared = reinterpret_cast<float*>(quads);
  constexpr int kW = kPart * (G::kM + G::kPad);  // where w begins in a stage
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / G::kAcross * 32 * G::kTall + lane / 4 * 4;
  const int col = warp % G::kAcross * 16 * G::kBroad + lane % 4 * 4;
  const int first_row = static_cast<int>(blockIdx.y) * G::kM;
  const int first_col = static_cast<int>(blockIdx.x) * G::kN;
  Operand<G::kThreads, G::kM, G::kM + G::kPad> x{job.x,    job.x_stride, first_row,
                                                 job.rows, job.k,        {}};
  Operand<G::kThreads, G::kN, G::kN + G::kPad> w{job.w, job.k, first_col, job.n, job.k, {}};
  float sums[4 * G::kTall][4 * G::kBroad] = {};
  let_next_start();
  if constexpr (G::kStages == 2) w.load(0);
  wait_for_previous();
  if constexpr (G::kStages == 2) {
    x.load(0);
    x.store(shared);
    w.store(shared + kW);
    __syncthreads();
    int stage = 0;
    for (int part = 0; part < job.k; part += kPart, stage ^= 1) {
      x.load(part + kPart);
      w.load(part + kPart);
      const float* from = shared + stage * G::kStageFloats;
      multiply_part<G>(from + row, from + kW + col, sums);
      float* to = shared + (stage ^ 1) * G::kStageFloats;
      x.store(to);
      w.store(to + kW);
      __syncthreads();
    }
  } else {
    for (int part = 0; part < job.k; part += kPart) {
      if constexpr (G::kStep >= GemmStep::kWideLoads) {
        x.load(part);
        w.load(part);
        x.store(shared);
        w.store(shared + kW);
      } else {
        x.copy(part, shared);
        w.copy(part, shared + kW);
      }
      __syncthreads();
      multiply_part<G>(shared + row, shared + kW + col, sums);
      __syncthreads();
    }
  }
  const bool wide = writes_wide(job);
#pragma unroll
  for (int i = 0; i < 4 * G::kTall; ++i) {
    const int m = first_row + row + i / 4 * 32 + i % 4;
    if (m >= job.rows) continue;
#pragma unroll
    for (int j = 0; j < G::kBroad; ++j)
      finish_four(
          job, m, first_col + col + 16 * j,
          make_float4(sums[i][4 * j], sums[i][4 * j + 1], sums[i][4 * j + 2], sums[i][4 * j + 3]),
          wide);
  }
}

template <class G>
void run_blocked(cudaStream_t stream, const MatmulJob& job) {
  launch(blocked_product<G>,
         {.grid = {static_cast<unsigned>(ceil_div(job.n, G::kN)),
                   static_cast<unsigned>(ceil_div(job.rows, G::kM))},
          .block = G::kThreads,
          .stream = stream,
          .overlaps = true},
         job);
}

template <GemmStep kStep>
using Large = Gemm<2, 4, 2, 2, kStep>;                     // 128 x 128
using Middle = Gemm<2, 2, 1, 2, GemmStep::kDoubleBuffer>;  // 64 x 64
using Flat = Gemm<1, 4, 1, 1, GemmStep::kDoubleBuffer>;    // 32 x 64

// Large blocks do most work for each value they load, small ones fill the device with a small
// problem, flat ones waste least on few rows.
void run_shaped(cudaStream_t stream, const MatmulJob& job) {
  constexpr int64_t kFullDevice = 96;  // blocks
  using Big = Large<GemmStep::kDoubleBuffer>;
  if (job.rows <= Flat::kM) return run_blocked<Flat>(stream, job);
  const int64_t blocks = int64_t{ceil_div(job.rows, Big::kM)} * ceil_div(job.n, Big::kN);
  if (blocks < kFullDevice || job.rows <= Middle::kM) return run_blocked<Middle>(stream, job);
  run_blocked<Big>(stream, job);
}

}  // namespace

void matmul_portable_cuda(cudaStream_t stream, const MatmulJob& given, GemmStep step) {
  const MatmulJob job = with_strides(given);
  FOVEA_CHECK(job.k % 8 == 0 && job.x_stride % 8 == 0 && job.norm_x == nullptr);
  if (job.rows == 0 || job.n == 0) return;
  switch (step) {
    case GemmStep::kPlain:
      launch(plain_product,
             {.grid = {static_cast<unsigned>(ceil_div(job.n, kPart)),
                       static_cast<unsigned>(ceil_div(job.rows, kPart))},
              .block = kPart * kPart,
              .stream = stream,
              .overlaps = true},
             job);
      return;
    case GemmStep::kRegisters:
      return run_blocked<Large<GemmStep::kRegisters>>(stream, job);
    case GemmStep::kPadded:
      return run_blocked<Large<GemmStep::kPadded>>(stream, job);
    case GemmStep::kWideLoads:
      return run_blocked<Large<GemmStep::kWideLoads>>(stream, job);
    case GemmStep::kDoubleBuffer:
      return run_blocked<Large<GemmStep::kDoubleBuffer>>(stream, job);
    case GemmStep::kShaped:
      return run_shaped(stream, job);
  }
}

}  // namespace fovea
