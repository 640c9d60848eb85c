// SPDX-License-Identifier: Apache-2.0
#include "ops/rows_cuda.h"

#include "base/check.h"
#include "ops/rotary_parts_cuda.h"

namespace fovea {
namespace {

constexpr int kRowThreads = 128;
constexpr int kRowWarps = kRowThreads / 32;

// Over the block; `parts` is free when the call before it with the same has ended.
__device__ float block_sum(float value, float (&parts)[kRowWarps]) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kRowWarps; ++i) sum += parts[i];
  return sum;
}

// Of a norm, for a thread's four values `at`; nothing where a row has no such.
struct NormWeights {
  float4 weight, bias;
};
template <bool kCentred>
__device__ NormWeights load_norm(const NormJob& job, int at) {
  NormWeights norm{zero_four(), zero_four()};
  if (at >= job.cols / 4) return norm;
  norm.weight = __ldg(reinterpret_cast<const float4*>(job.weight) + at);
  if (kCentred) norm.bias = __ldg(reinterpret_cast<const float4*>(job.bias) + at);
  return norm;
}

// A block owns a row and keeps it in registers, kKept times four values a thread: it is read once.
// So are weights, where there is room for them: no kernel writes them, so that they come while the
// one before ends. Sums are f32; the variance is that of the differences from the mean.
template <int kKept, bool kCentred>
__global__ void __launch_bounds__(kRowThreads) norm_row(NormJob job) {
  __shared__ float mean_parts[kRowWarps];
  __shared__ float square_parts[kRowWarps];
  constexpr bool kEarly = kKept <= 4;
  const int thread = static_cast<int>(threadIdx.x);
  const int quads = job.cols / 4;
  let_next_start();
  NormWeights norms[kEarly ? kKept : 1];
  if constexpr (kEarly) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) norms[i] = load_norm<kCentred>(job, i * kRowThreads + thread);
  }
  wait_for_previous();
  const auto* x = reinterpret_cast<const float4*>(job.x + blockIdx.x * job.x_stride);
  float4 kept[kKept];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int at = i * kRowThreads + thread;
    kept[i] = at < quads ? __ldcg(x + at) : zero_four();
    sum += kept[i].x + kept[i].y + kept[i].z + kept[i].w;
  }
  if constexpr (kCentred) {
    const float mean = block_sum(sum, mean_parts) / static_cast<float>(job.cols);
#pragma unroll
    for (float4& four : kept)
      four = make_float4(four.x - mean, four.y - mean, four.z - mean, four.w - mean);
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i)
    if (i * kRowThreads + thread < quads) squares += squares_of(kept[i]);
  squares = block_sum(squares, square_parts);
  const float factor = rsqrtf(squares / static_cast<float>(job.cols) + job.eps);
  auto* y = reinterpret_cast<uint2*>(job.y + blockIdx.x * job.y_stride);
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int at = i * kRowThreads + thread;
    if (at >= quads) continue;
    const NormWeights norm = kEarly ? norms[kEarly ? i : 0] : load_norm<kCentred>(job, at);
    const float4 weight = norm.weight;
    const float4 bias = norm.bias;
    y[at] = make_uint2(
        to_pair(kept[i].x * factor * weight.x + bias.x, kept[i].y * factor * weight.y + bias.y),
        to_pair(kept[i].z * factor * weight.z + bias.z, kept[i].w * factor * weight.w + bias.w));
  }
}

template <bool kCentred>
void norm_rows(cudaStream_t stream, NormJob job) {
  if (job.x_stride == 0) job.x_stride = job.cols;
  if (job.y_stride == 0) job.y_stride = job.cols;
  FOVEA_CHECK(job.cols % 4 == 0 && job.cols <= kMaxNormCols);
  FOVEA_CHECK(job.x_stride % 4 == 0 && job.y_stride % 4 == 0);
  if (job.rows == 0) return;
  const LaunchShape shape{.grid = static_cast<unsigned>(job.rows),
                          .block = kRowThreads,
                          .stream = stream,
                          .overlaps = true};
  constexpr int kQuad = 4 * kRowThreads;
  if (job.cols <= 2 * kQuad) return launch(norm_row<2, kCentred>, shape, job);
  if (job.cols <= 4 * kQuad) return launch(norm_row<4, kCentred>, shape, job);
  if (job.cols <= 8 * kQuad) return launch(norm_row<8, kCentred>, shape, job);
  launch(norm_row<16, kCentred>, shape, job);
}

__device__ float4 four_features(const FeatureRows& features, int64_t at) {
  if (features.floats != nullptr)
    return __ldcg(reinterpret_cast<const float4*>(features.floats + at));
  return four_of(features.shorts + at);
}

// A block owns a row, a thread four values of it and those kRowThreads times four further on.
template <bool kAdd>
__global__ void gather_row(RunRows run, const bf16* table, FeatureRows features) {
  let_next_start();
  wait_for_previous();
  const int id = __ldcg(run.ids + blockIdx.x);
  if (kAdd && id >= 0) return;
  float* to = run.residual + int64_t{blockIdx.x} * run.cols;
  for (int c = static_cast<int>(threadIdx.x) * 4; c < run.cols; c += 4 * kRowThreads) {
    auto* here = reinterpret_cast<float4*>(to + c);
    if (id >= 0) {
      *here = four_of(table + int64_t{id} * run.cols + c);
      continue;
    }
    float4 four = four_features(features, int64_t{~id} * run.cols + c);
    if (kAdd) {
      const float4 old = __ldcg(here);
      four = make_float4(old.x + four.x, old.y + four.y, old.z + four.z, old.w + four.w);
    }
    *here = four;
  }
}

// `lanes` lanes own one head of one row, each four pairs of values.
__global__ void rotate_heads(RotaryJob job, int lanes) {
  let_next_start();
  wait_for_previous();
  const int all_heads = job.heads + 2 * job.kv_heads;
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t row = thread / lanes / all_heads;
  const auto head = static_cast<int>(thread / lanes % all_heads);
  const int i = static_cast<int>(thread % lanes) * 4;
  const int half = job.head_dim / 2;
  const bool mine = row < job.rows && i < half;
  const bool is_query = head < job.heads;
  const bool is_value = head >= job.heads + job.kv_heads;
  const float* weight = is_query ? job.q_norm : is_value ? nullptr : job.k_norm;
  const HeadLoads loads = load_head(job, job.qkv + row * job.stride + int64_t{head} * job.head_dim,
                                    !is_value, row, i, mine);
  HeadPart weights{};
  if (mine && weight != nullptr) weights = load_weights(job, weight, i);
  RowPlace place;
  if (mine && !is_query) place = read_place(job.places + row);
  HeadPart part{four_of(loads.first), four_of(loads.second)};
  const float factor = factor_of(job, part, lanes);
  if (!mine) return;
  if (weight != nullptr) part = normed(part, factor, weights);
  if (!is_value) part = rotated(part, loads.cos, loads.sin);
  bf16* to = job.q + row * job.q_stride + int64_t{head} * job.head_dim + i;
  if (!is_query) {
    const int of = head - job.heads - (is_value ? job.kv_heads : 0);
    to =
        (is_value ? place.values : place.keys) + i +
        ((int64_t{job.layer} * job.kv_heads + of) * place.capacity + place.position) * job.head_dim;
  }
  write_four(to, part.first);
  write_four(to + half, part.second);
}

__global__ void move_row(const __grid_constant__ RowMove move) {
  let_next_start();
  wait_for_previous();
  const auto row = static_cast<int>(blockIdx.x);
  const auto part = int64_t{blockIdx.y} * move.rows;
  const bf16* from = move.from + (part + row) * move.cols;
  bf16* to = move.to + (part + move.order[row]) * move.cols;
  for (int i = static_cast<int>(threadIdx.x) * 8; i < move.cols;
       i += static_cast<int>(blockDim.x) * 8)
    *reinterpret_cast<bf16x8*>(to + i) = *reinterpret_cast<const bf16x8*>(from + i);
}

void run_rows(cudaStream_t stream, const RunRows& run, const bf16* table,
              const FeatureRows& features, bool add) {
  FOVEA_CHECK(run.cols % 4 == 0);
  if (run.rows == 0) return;
  launch(add ? gather_row<true> : gather_row<false>,
         {.grid = static_cast<unsigned>(run.rows),
          .block = kRowThreads,
          .stream = stream,
          .overlaps = true},
         run, table, features);
}

}  // namespace

void layer_norm_cuda(cudaStream_t stream, const NormJob& job) { norm_rows<true>(stream, job); }
void rms_norm_cuda(cudaStream_t stream, const NormJob& job) { norm_rows<false>(stream, job); }

void embed_rows_cuda(cudaStream_t stream, const RunRows& run, const bf16* table,
                     const FeatureRows& features) {
  run_rows(stream, run, table, features, false);
}
void add_features_cuda(cudaStream_t stream, const RunRows& run, const FeatureRows& features) {
  run_rows(stream, run, nullptr, features, true);
}

void move_rows_cuda(cudaStream_t stream, const RowMove& move) {
  FOVEA_CHECK(move.cols % 8 == 0);
  if (move.rows == 0) return;
  launch(move_row,
         {.grid = dim3(static_cast<unsigned>(move.rows), static_cast<unsigned>(move.parts)),
          .block = kRowThreads,
          .stream = stream,
          .overlaps = true},
         move);
}

void rotate_heads_cuda(cudaStream_t stream, const RotaryJob& given) {
  RotaryJob job = given;
  const int all_heads = job.heads + 2 * job.kv_heads;
  if (job.stride == 0) job.stride = int64_t{all_heads} * job.head_dim;
  if (job.q_stride == 0) job.q_stride = int64_t{job.heads} * job.head_dim;
  FOVEA_CHECK(job.head_dim % 8 == 0 && job.head_dim <= 256);
  FOVEA_CHECK(job.stride % 4 == 0 && job.q_stride % 4 == 0);
  if (job.rows == 0) return;
  const int lanes = lanes_of_head(job.head_dim);
  constexpr int kThreads = 256;
  const int64_t threads = int64_t{job.rows} * all_heads * lanes;
  launch(rotate_heads,
         {.grid = static_cast<unsigned>(ceil_div(threads, int64_t{kThreads})),
          .block = kThreads,
          .stream = stream,
          .overlaps = true},
         job, lanes);
}

}  // namespace fovea
