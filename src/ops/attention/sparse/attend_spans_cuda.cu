// SPDX-License-Identifier: Apache-2.0
// Attention of blocks of rows to chosen keys, by warps of 16 rows:
//   scores = q k' of 64 keys, in registers; weights = 2^(scores - largest so far); sums += weights
//   v.
//
// A block is 4 warps and takes a block of at most 64 queries of a head. It walks the spans of its
// list, a step each, then the coarse keys, 64 a step; keys and values come to shared memory, the
// next ones while these are computed with, with the bias of each key: -infinity for those that
// nobody sees. Products are bf16, sums f32, weights are rounded to bf16. Heads of multiples of 8
// values up to 128; sm_80 or later.
#include "ops/attention/attention_flash_warp_cuda.h"
#include "ops/attention/sparse/spans_cuda.h"

namespace fovea {
namespace {

template <int kDim>
struct SpansLayout {
  static constexpr int kStride = kDim + 8;
  static constexpr int kStep = kKeysOfStep * kStride;
  // In bf16s: queries, two stages of keys, two of values, then two of biases in floats.
  static constexpr int kKeys = RowBlocks::kMaxBlockRows * kStride;
  static constexpr int kValues = kKeys + 2 * kStep;
  static constexpr int kBiases = kValues + 2 * kStep;
  static constexpr size_t kBytes = kBiases * sizeof(bf16) + 2 * kKeysOfStep * sizeof(float);
};

// The steps of a block of queries.
template <int kDim>
class SpanSteps {
  using Layout = SpansLayout<kDim>;

 public:
  __device__ SpanSteps(const SparseCall& call, int head, int block, bf16* shared)
      : call_(call), shared_(shared), own_(call.rows.spans[block]), choice_(call, head, block) {
    of_head_ = int64_t{head} * call.rows.capacity * call.rows.head_dim;
    of_coarse_ = head * call.coarse.head_stride;
    spans_ = choice_.spans(call);
  }

  __device__ int count() const { return spans_ + ceil_div(call_.coarse.count, kKeysOfStep); }
  __device__ bool is_span(int step) const { return step < spans_; }
  __device__ RowSpan span(int step) const { return choice_.list[step]; }
  __device__ const RowSpan& own() const { return own_; }

  // Asks for the keys, values and biases of a step.
  __device__ void fetch(int step, int stage) {
    const SparseRows& rows = call_.rows;
    if (is_span(step)) {
      const RowSpan keys = span(step);
      copy(stage, rows.keys + of_head_, rows.values + of_head_, rows.head_dim, keys.first,
           keys.count);
      set_biases(stage, [&](int key) { return key < keys.count ? keys.bias : minus_infinity(); });
    } else {
      const int begin = (step - spans_) * kKeysOfStep;
      const CoarseKeys& coarse = call_.coarse;
      copy(stage, coarse.keys + of_coarse_, coarse.values + of_coarse_, coarse.row_stride, begin,
           min(kKeysOfStep, coarse.count - begin));
      set_biases(stage, [&](int key) { return bias_of_coarse(call_, choice_, own_, begin + key); });
    }
    end_copy_group();
  }
  __device__ const float* biases(int stage) const {
    return reinterpret_cast<const float*>(shared_ + Layout::kBiases) + stage * kKeysOfStep;
  }

 private:
  __device__ void copy(int stage, const bf16* keys, const bf16* values, int64_t stride, int first,
                       int count) {
    const auto row_of = [&](const bf16* all) {
      return [=](int row) -> const bf16* {
        return row < count ? all + (first + row) * stride : nullptr;
      };
    };
    const int head_dim = call_.rows.head_dim;
    copy_rows<kDim, kKeysOfStep, kFlashThreads>(shared_ + Layout::kKeys + stage * Layout::kStep,
                                                head_dim, row_of(keys));
    copy_rows<kDim, kKeysOfStep, kFlashThreads>(shared_ + Layout::kValues + stage * Layout::kStep,
                                                head_dim, row_of(values));
  }
  template <class BiasOf>
  __device__ void set_biases(int stage, const BiasOf& bias_of) {
    const int key = static_cast<int>(threadIdx.x);
    if (key < kKeysOfStep) const_cast<float*>(biases(stage))[key] = bias_of(key);
  }

  const SparseCall& call_;
  bf16* shared_;
  RowSpan own_;
  SpanChoice choice_;
  int spans_ = 0;
  int64_t of_head_ = 0;
  int64_t of_coarse_ = 0;
};

// Products become scores, times log2(e); -infinity where a query does not see a key.
template <int kDim>
__device__ void add_biases(const SparseCall& call, const FlashWarp<kDim, 1, true>& warp,
                           const SpanSteps<kDim>& steps, int step, const float* biases,
                           float (&scores)[8][4]) {
  const bool has_window = call.window.radius > 0;
  const RowSpan keys = has_window ? steps.span(step) : RowSpan{};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = i * 8 + warp.column() + j % 2;
      float& score = scores[i][j];
      score = score * call.rows.scale * kLog2E + biases[key] * kLog2E;
      const int row = warp.row_of(0, j / 2);
      if (has_window && row < steps.own().count && key < keys.count &&
          !window_sees(call.window, call.places[steps.own().first + row],
                       call.places[keys.first + key]))
        score = minus_infinity();
    }
  }
}

template <int kDim>
__device__ void write_block(const SparseCall& call, const FlashWarp<kDim, 1, true>& warp,
                            const RowSpan& own, int head) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp.row_of(0, half);
    if (row >= own.count) continue;
    const float inverse = 1 / warp.state.total[0][half];
    bf16* to = call.out + (own.first + row) * call.out_stride + int64_t{head} * call.rows.head_dim +
               warp.column();
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      const float(&sums)[4] = warp.state.sums[0][i];
      if (i * 8 < call.rows.head_dim)
        *reinterpret_cast<uint32_t*>(to + i * 8) =
            to_pair(sums[2 * half] * inverse, sums[2 * half + 1] * inverse);
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kFlashThreads)
    attend_spans(const __grid_constant__ SparseCall call) {
  if constexpr (kTensorCores) {
    using Layout = SpansLayout<kDim>;
    bf16* shared = dynamic_shared<bf16>();
    wait_for_previous();
    let_next_start();
    const SparseRows& rows = call.rows;
    const int block = static_cast<int>(blockIdx.x);
    const int head = static_cast<int>(blockIdx.y);
    SpanSteps<kDim> steps(call, head, block, shared);
    const RowSpan own = steps.own();
    copy_rows<kDim, RowBlocks::kMaxBlockRows, kFlashThreads>(
        shared, rows.head_dim, [&](int row) -> const bf16* {
          if (row >= own.count) return nullptr;
          return rows.q + (own.first + row) * rows.q_stride + int64_t{head} * rows.head_dim;
        });
    // It sees no keys by itself.
    AttentionCall plain{};
    plain.group = 1;
    const AttentionSequence none;
    FlashWarp<kDim, 1, true> warp(plain, none, shared, 0, static_cast<int>(threadIdx.x) / 32 * 16);
    const int count = steps.count();
    steps.fetch(0, 0);  // in one group with the queries
    int stage = 0;
    for (int step = 0; step < count; ++step, stage ^= 1) {
      wait_for_copies<0>();
      __syncthreads();  // these are here for all, and nobody reads the other stage any more
      if (step == 0) warp.keep_queries();
      if (step + 1 < count) steps.fetch(step + 1, stage ^ 1);
      float weights[1][kKeysOfStep / 8][4];
      warp.multiply_keys(shared + Layout::kKeys + stage * Layout::kStep, weights);
      add_biases(call, warp, steps, step, steps.biases(stage), weights[0]);
      warp.weigh(0, 1.0f, weights[0]);
      warp.multiply_values(shared + Layout::kValues + stage * Layout::kStep, weights);
    }
    warp.finish();
    write_block(call, warp, own, head);
  }
}

template <int kDim>
void launch_dim(cudaStream_t stream, const SparseCall& call) {
  launch(attend_spans<kDim>,
         {.grid =
              dim3(static_cast<unsigned>(call.rows.blocks), static_cast<unsigned>(call.rows.heads)),
          .block = kFlashThreads,
          .shared_bytes = SpansLayout<kDim>::kBytes,
          .stream = stream,
          .overlaps = true},
         call);
}

}  // namespace

void attend_spans_cuda(cudaStream_t stream, const SparseCall& call) {
  if (call.rows.head_dim <= 16)
    launch_dim<16>(stream, call);
  else if (call.rows.head_dim <= 32)
    launch_dim<32>(stream, call);
  else if (call.rows.head_dim <= 64)
    launch_dim<64>(stream, call);
  else if (call.rows.head_dim <= 80)
    launch_dim<80>(stream, call);
  else
    launch_dim<128>(stream, call);
}

}  // namespace fovea
