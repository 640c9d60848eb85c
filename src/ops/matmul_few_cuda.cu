// SPDX-License-Identifier: Apache-2.0
// Products of few rows, where the time is that of reading the weights.
//
// A warp owns kPerWarp rows of w at a time and its lanes share k, 8 values a lane and load; a lane
// has 8 loads of 16 bytes in flight, and each is replaced by a load of what comes next as soon as
// it is used: 4 KB a warp, 64 KB a multiprocessor with two blocks of 8 warps, three times what
// hides the memory's latency. x lies in shared memory as bf16. Sums are f32: each lane over its
// values, then over lanes by shuffles, in an order that depends on the shape alone.
//
// The first loads do not wait for the kernel before this one. Half of the registers of a
// multiprocessor stay free, so that the next kernel can do the same.
#include "base/check.h"
#include "device/cuda/load.h"
#include "ops/matmul_finish_cuda.h"

namespace fovea {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kLoads = 8;  // in flight for each lane
constexpr int kBlocksPerProcessor = 2;

// Values of a row of x in shared memory: as many as the loads of whole steps meet.
__host__ __device__ constexpr int padded_k(int k) {
  constexpr int kStep = 32 * 8 * kLoads;
  return (k + kStep - 1) / kStep * kStep;
}
size_t shared_bytes(int rows, int k) {
  return static_cast<size_t>(rows) * static_cast<size_t>(padded_k(k)) * sizeof(bf16);
}
// What a kernel has besides: parts of squares.
size_t norm_bytes(int rows) { return static_cast<size_t>(rows) * kWarps * sizeof(float); }
size_t most_shared(KernelChoice choice) {
  return size_t{choice == KernelChoice::kPortable ? 48u : 96u} << 10;
}
int template_rows(int rows) {
  int whole = 1;
  while (whole < rows) whole *= 2;
  return whole;
}

// x, zeros beyond its rows and columns.
template <int kRows>
__device__ void load_plain(const MatmulJob& job, uint4* x) {
  const int chunks = padded_k(job.k) / 8;
#pragma unroll 1
  for (int row = 0; row < kRows; ++row, x += chunks) {
    const auto* from = reinterpret_cast<const uint4*>(job.x + row * job.x_stride);
#pragma unroll 2
    for (int at = static_cast<int>(threadIdx.x); at < chunks; at += kThreads)
      x[at] = row < job.rows && at * 8 < job.k ? __ldcg(from + at) : uint4{};
  }
}

// x = norm_x * weight, and the parts of its squares that norm_factor() puts together.
template <int kRows>
__device__ void load_weighted(const MatmulJob& job, uint2* x, float (&parts)[kRows][kWarps]) {
  const int quads = padded_k(job.k) / 4;
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int row = 0; row < kRows; ++row) {
    float squares = 0;
#pragma unroll 2
    for (int at = thread; at < quads; at += kThreads) {
      float4 four = make_float4(0, 0, 0, 0);
      float4 weight = four;
      if (row < job.rows && at * 4 < job.k) {
        four = __ldcg(reinterpret_cast<const float4*>(job.norm_x + row * job.x_stride) + at);
        weight = __ldg(reinterpret_cast<const float4*>(job.norm_weight) + at);
      }
      squares += four.x * four.x + four.y * four.y + four.z * four.z + four.w * four.w;
      x[row * quads + at] = make_uint2(to_pair(four.x * weight.x, four.y * weight.y),
                                       to_pair(four.z * weight.z, four.w * weight.w));
    }
    squares = warp_sum(squares);
    if (thread % 32 == 0) parts[row][thread / 32] = squares;
  }
}

// What the sums of a row are multiplied by: 1 / sqrt(mean of the squares + eps).
__device__ float norm_factor(const MatmulJob& job, const float (&parts)[kWarps]) {
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) squares += parts[i];
  return rsqrtf(squares / static_cast<float>(job.k) + job.norm_eps);
}

// The next loads of a lane: its part of step `step` of the warp's rows, `row` and those after it.
template <int kPerWarp>
struct Cursor {
  static constexpr int kDeep = kLoads / kPerWarp;

  const bf16* at = nullptr;
  int left = 0;    // values of the row from `at` on; none beyond the last row
  int second = 0;  // values to the row after it, or 0 where that is beyond the last
  int row = 0;
  int step = 0;

  __device__ void begin(const MatmulJob& job, int its_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    row = its_row;
    step = 0;
    at = job.w + int64_t{row} * job.k + lane * 8;
    left = row < job.n ? job.k - lane * 8 : 0;
    if (kPerWarp > 1) second = row + 1 < job.n ? job.k : 0;
  }
  __device__ void advance(const MatmulJob& job, int steps) {
    constexpr int kStep = 32 * 8 * kDeep;
    ++step;
    at += kStep;
    left -= kStep;
    if (step == steps) begin(job, row + static_cast<int>(gridDim.x) * kWarps * kPerWarp);
  }
  __device__ uint4 load(int of, int depth) const {
    return load_once(at + of * second + depth * 256, left > depth * 256);
  }
};

template <int kRows, int kPerWarp>
__device__ __forceinline__ void add_products(const uint4 (&w)[kPerWarp], const uint4* x, int stride,
                                             float (&sums)[kRows][kPerWarp]) {
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const uint4 here = x[row * stride];
    const uint32_t pairs[4] = {here.x, here.y, here.z, here.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int of = 0; of < kPerWarp; ++of) {
        const uint32_t both = i == 0 ? w[of].x : i == 1 ? w[of].y : i == 2 ? w[of].z : w[of].w;
        sums[row][of] += first_of(pairs[i]) * first_of(both);
        sums[row][of] += second_of(pairs[i]) * second_of(both);
      }
    }
  }
}

// One output of lane `row`; `before` is what y held, for kAdd.
__device__ __forceinline__ void finish_one(const MatmulJob& job, int row, int col, float sum,
                                           float before) {
  const int64_t at = row * job.y_stride + col;
  if (is_float(job.finish))
    static_cast<float*>(job.y)[at] = sum + before;
  else
    static_cast<bf16*>(job.y)[at] = to_bf16(activate(job.finish, sum));
}

template <int kRows, int kPerWarp>
__device__ __forceinline__ void finish_rows(const MatmulJob& job, int col,
                                            float (&sums)[kRows][kPerWarp],
                                            const float (&before)[kPerWarp], float factor) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float mine[kPerWarp] = {};
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int of = 0; of < kPerWarp; ++of) {
      const float sum = warp_sum(sums[row][of]);
      if (lane == row) mine[of] = sum;
    }
  }
  if (lane >= kRows || lane >= job.rows) return;
#pragma unroll
  for (int of = 0; of < kPerWarp; ++of) {
    mine[of] *= factor;
    if (job.bias != nullptr && col + of < job.n) mine[of] += job.bias[col + of];
  }
  if constexpr (kPerWarp == 2) {
    if (job.finish == MatmulFinish::kSiluMultiply) {
      static_cast<bf16*>(job.y)[lane * job.y_stride + col / 2] =
          to_bf16(silu_of(mine[0]) * mine[1]);
      return;
    }
  }
#pragma unroll
  for (int of = 0; of < kPerWarp; ++of)
    if (col + of < job.n) finish_one(job, lane, col + of, mine[of], before[of]);
}

// That a multiprocessor has registers for.
template <int kRows>
constexpr int kBlocks = kRows == 1   ? 4
                        : kRows == 2 ? 3
                                     : 2;

template <int kRows, int kPerWarp>
__global__ void __launch_bounds__(kThreads, kBlocks<kRows>) few_rows(MatmulJob job) {
  constexpr int kDeep = kLoads / kPerWarp;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int steps = ceil_div(job.k, 32 * 8 * kDeep);
  const int stride = padded_k(job.k) / 8;
  auto* x = dynamic_shared<uint4>();

  Cursor<kPerWarp> next;
  next.begin(job, (static_cast<int>(blockIdx.x) * kWarps + warp) * kPerWarp);
  int row = next.row;
  uint4 held[kDeep][kPerWarp];
#pragma unroll
  for (int d = 0; d < kDeep; ++d)
#pragma unroll
    for (int of = 0; of < kPerWarp; ++of) held[d][of] = next.load(of, d);
  next.advance(job, steps);
  if (job.norm_x != nullptr && static_cast<int>(threadIdx.x) * kLineBytes < job.k * 4)
    prefetch_line(job.norm_weight + threadIdx.x * (kLineBytes / 4));
  let_next_start();
  wait_for_previous();
  __shared__ float parts[kRows][kWarps];
  if (job.norm_x != nullptr)
    load_weighted<kRows>(job, reinterpret_cast<uint2*>(x), parts);
  else
    load_plain<kRows>(job, x);
  __syncthreads();
  // Lane r finishes row r.
  float factor = 1;
  if (job.norm_x != nullptr && lane < kRows) factor = norm_factor(job, parts[lane]);

  while (row < job.n) {
    float before[kPerWarp] = {};
    if (job.finish == MatmulFinish::kAdd && lane < kRows && lane < job.rows) {
#pragma unroll
      for (int of = 0; of < kPerWarp; ++of)
        if (row + of < job.n)
          before[of] = __ldcg(static_cast<const float*>(job.y) + lane * job.y_stride + row + of);
    }
    float sums[kRows][kPerWarp] = {};
    for (int step = 0; step < steps; ++step) {
      const uint4* here = x + step * kDeep * 32 + lane;
#pragma unroll
      for (int d = 0; d < kDeep; ++d) {
        add_products<kRows, kPerWarp>(held[d], here + d * 32, stride, sums);
#pragma unroll
        for (int of = 0; of < kPerWarp; ++of) held[d][of] = next.load(of, d);
      }
      next.advance(job, steps);
    }
    finish_rows<kRows, kPerWarp>(job, row, sums, before, factor);
    row += static_cast<int>(gridDim.x) * kWarps * kPerWarp;
  }
}

template <int kRows, int kPerWarp>
void run_few(cudaStream_t stream, const MatmulJob& job, int processors) {
  const int units = ceil_div(job.n, kPerWarp * kWarps);
  const int blocks = min(units, processors * kBlocksPerProcessor);
  launch(few_rows<kRows, kPerWarp>,
         {.grid = static_cast<unsigned>(blocks),
          .block = kThreads,
          .shared_bytes = shared_bytes(kRows, job.k),
          .stream = stream,
          .overlaps = true},
         job);
}

// Two rows of w at a time where a value of gate meets its of up, or where several rows of x are
// read for each.
template <int kRows>
void run_few(cudaStream_t stream, const MatmulJob& job, int processors) {
  if constexpr (kRows <= 2)
    if (job.finish != MatmulFinish::kSiluMultiply)
      return run_few<kRows, 1>(stream, job, processors);
  run_few<kRows, 2>(stream, job, processors);
}

}  // namespace

bool is_few(const MatmulJob& job, KernelChoice choice) {
  const int rows = template_rows(job.rows);
  return job.rows <= kMaxFewRows &&
         shared_bytes(rows, job.k) + norm_bytes(rows) <= most_shared(choice);
}

void matmul_few_cuda(cudaStream_t stream, const MatmulJob& given, int processors) {
  const MatmulJob job = with_strides(given);
  FOVEA_CHECK(job.k % 8 == 0 && job.x_stride % 8 == 0 && is_few(job, KernelChoice::kBest));
  FOVEA_CHECK(job.finish != MatmulFinish::kSiluMultiply || job.n % 2 == 0);
  if (job.rows == 0 || job.n == 0) return;
  switch (template_rows(job.rows)) {
    case 1:
      return run_few<1>(stream, job, processors);
    case 2:
      return run_few<2>(stream, job, processors);
    case 4:
      return run_few<4>(stream, job, processors);
    case 8:
      return run_few<8>(stream, job, processors);
    default:
      return run_few<16>(stream, job, processors);
  }
}

}  // namespace fovea
