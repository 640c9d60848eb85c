// SPDX-License-Identifier: Apache-2.0
// What one warp does in attention_flash_cuda.cu and attention_short_cuda.cu: scores, weights and
// sums of 16 or 32 rows.
#pragma once

#include "device/cuda/mma.h"
#include "ops/attention/attention_parts_cuda.h"

namespace fovea {
inline constexpr int kFlashThreads = 128;
inline constexpr int kFlashWarps = kFlashThreads / 32;
inline constexpr int kKeysOfStep = 64;

template <int kDim, int kTiles>
struct FlashLayout {
  static constexpr int kRows = kFlashWarps * 16 * kTiles;
  static constexpr int kStride = kDim + 8;
  static constexpr int kKeys = kRows * kStride;                      // two steps
  static constexpr int kValues = kKeys + 2 * kKeysOfStep * kStride;  // two steps
  static constexpr size_t kBytes = (kValues + 2 * kKeysOfStep * kStride) * sizeof(bf16);
  // Registers do not hold the queries of 32 rows of 128 beside their sums.
  static constexpr bool kKeepQ = kDim * kTiles <= 128;
};

// Copies rows of 8 kDim / 8 values, with zeros beyond the head's values and the rows there are. All
// threads of the block call it.
template <int kDim, int kRows, int kThreads, class From>
__device__ void copy_rows(bf16* shared, int head_dim, const From& row_or_null) {
  constexpr int kChunks = kDim / 8;
#pragma unroll 8
  for (int i = 0; i < ceil_div(kRows * kChunks, kThreads); ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * kThreads;
    const int row = item / kChunks;
    const int chunk = item % kChunks * 8;
    if (kRows * kChunks % kThreads != 0 && row >= kRows) break;
    const bf16* from = row_or_null(row);
    const bool valid = from != nullptr && chunk < head_dim;
    copy_async_16(shared + row * (kDim + 8) + chunk, valid ? from + chunk : nullptr, valid);
  }
}

// What a warp holds of its rows: lane / 4 and lane / 4 + 8 of each 16.
template <int kDim, int kTiles>
struct FlashState {
  float sums[kTiles][kDim / 8][4];
  float largest[kTiles][2];
  float total[kTiles][2];  // of this lane's columns
};

// The queries of the rows from first_row of those that a block has in shared memory, and their
// products with keys. kKeepQ: the queries stay in registers, for a warp that takes many steps.
template <int kDim, int kTiles, bool kKeepQ>
class FlashProducts {
 public:
  static constexpr int kStride = kDim + 8;

  __device__ FlashProducts(const bf16* shared, int first_row)
      : shared_(shared), first_row_(first_row) {
    lane_ = static_cast<int>(threadIdx.x) % 32;
  }

  // When the queries are in shared memory.
  __device__ void keep_queries() {
    if constexpr (kKeepQ) {
#pragma unroll
      for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) load_query(q_[step][tile], tile, step);
      }
    }
  }

  template <int kEights>
  __device__ void multiply_keys(const bf16* keys, float (&scores)[kTiles][kEights][4]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) scores[tile][i][j] = 0;
      }
    }
    const bf16* from = keys + (lane() / 16 * 8 + lane() % 8) * kStride + lane() / 8 % 2 * 8;
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      uint32_t q[kTiles][4];
      if constexpr (!kKeepQ) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) load_query(q[tile], tile, step);
      }
#pragma unroll
      for (int i = 0; i < kEights / 2; ++i) {
        uint32_t k[4];
        load_matrices(k, from + i * 16 * kStride + step * 16);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const uint32_t(&query)[4] = kKeepQ ? q_[kKeepQ ? step : 0][tile] : q[tile];
          multiply_add(scores[tile][2 * i], query, k[0], k[1]);
          multiply_add(scores[tile][2 * i + 1], query, k[2], k[3]);
        }
      }
    }
  }

  __device__ int row_of(int tile, int half) const {
    return first_row_ + tile * 16 + half * 8 + lane() / 4;
  }
  __device__ int column() const { return lane() % 4 * 2; }

 protected:
  // A warp that keeps no queries has other warps beside it, and fewer registers: it asks anew.
  __device__ int lane() const { return kKeepQ ? lane_ : static_cast<int>(threadIdx.x % 32); }

  const bf16* shared_;
  int first_row_;

 private:
  __device__ void load_query(uint32_t (&to)[4], int tile, int step) {
    load_matrices(to, shared_ + (first_row_ + tile * 16 + lane() % 16) * kStride + step * 16 +
                          lane() / 16 * 8);
  }

  int lane_ = 0;
  uint32_t q_[kKeepQ ? kDim / 16 : 1][kTiles][4];
};

template <int kDim, int kTiles, bool kKeepQ>
class FlashWarp : public FlashProducts<kDim, kTiles, kKeepQ> {
  using Products = FlashProducts<kDim, kTiles, kKeepQ>;
  using Products::first_row_;
  using Products::lane;

 public:
  using Products::column;
  using Products::kStride;
  using Products::multiply_keys;

  // Of the rows from first_row of those that a block has in shared memory, where row 0 is the
  // sequence's row_begin.
  __device__ FlashWarp(const AttentionCall& call, const AttentionSequence& sequence, bf16* shared,
                       int row_begin, int first_row)
      : Products(shared, first_row), call_(call), sequence_(sequence) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        keys_[tile][half] =
            keys_of_row(call, sequence, row_begin + first_row_ + tile * 16 + half * 8 + lane() / 4);
        state.largest[tile][half] = minus_infinity();
        state.total[tile][half] = 0;
      }
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) state.sums[tile][i][j] = 0;
      }
    }
  }

  // The weights of the keys [begin, begin + 8 kEights) below end. `masked`: some row does not see
  // some of them. `bias`: of key begin and those after it, where the sequence has one.
  template <int kEights>
  __device__ void weigh_keys(const bf16* keys, const float* bias, int begin, int end, bool masked,
                             float (&scores)[kTiles][kEights][4]) {
    multiply_keys(keys, scores);
    if (sequence_.key_bias != nullptr) add_bias(bias, end - begin, scores);
    if (masked) mask(begin, end, scores);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) weigh(tile, factor(), scores[tile]);
  }

  // Adds the values of these keys, so weighed.
  template <int kEights>
  __device__ void multiply_values(const bf16* values, const float (&weights)[kTiles][kEights][4]) {
    const bf16* from = values + lane() % 16 * kStride + lane() / 16 * 8;
#pragma unroll
    for (int step = 0; step < kEights / 2; ++step) {
      uint32_t p[kTiles][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float(&pair)[4] = weights[tile][2 * step + i / 2];
          p[tile][i] = to_pair(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) {
        uint32_t v[4];
        load_matrices_transposed(v, from + step * 16 * kStride + i * 16);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          multiply_add(state.sums[tile][2 * i], p[tile], v[0], v[1]);
          multiply_add(state.sums[tile][2 * i + 1], p[tile], v[2], v[3]);
        }
      }
    }
  }

  // Scores become weights; what was summed is made smaller where a larger score has come.
  template <int kEights>
  __device__ void weigh(int tile, float factor, float (&scores)[kEights][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = state.largest[tile][half];
#pragma unroll
      for (int i = 0; i < kEights; ++i)
        largest = fmaxf(largest, fmaxf(scores[i][2 * half], scores[i][2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      // A row that sees none of these keys yet has weights 0, not NaN.
      const float base = largest == minus_infinity() ? 0.0f : largest * factor;
      const float share = fast_exp2(state.largest[tile][half] * factor - base);
      state.largest[tile][half] = largest;
      float total = state.total[tile][half] * share;
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          float& score = scores[i][2 * half + side];
          score = fast_exp2(score * factor - base);
          total += score;
        }
      }
      state.total[tile][half] = total;
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        state.sums[tile][i][2 * half] *= share;
        state.sums[tile][i][2 * half + 1] *= share;
      }
    }
  }

  // Each row's total over its four lanes.
  __device__ void finish() {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& total = state.total[tile][half];
        total += __shfl_xor_sync(kAllLanes, total, 1);
        total += __shfl_xor_sync(kAllLanes, total, 2);
      }
    }
  }

  // Of scores that were multiplied by this already, or that must be.
  __device__ float factor() const { return sequence_.key_bias != nullptr ? 1.0f : call_.scale; }

  FlashState<kDim, kTiles> state;

 private:
  template <int kEights>
  __device__ void add_bias(const float* bias, int count, float (&scores)[kTiles][kEights][4]) {
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const int key = i * 8 + column() + side;
        const float more = key < count ? bias[key] * kLog2E : 0.0f;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          scores[tile][i][side] = scores[tile][i][side] * call_.scale + more;
          scores[tile][i][side + 2] = scores[tile][i][side + 2] * call_.scale + more;
        }
      }
    }
  }

  template <int kEights>
  __device__ void mask(int begin, int end, float (&scores)[kTiles][kEights][4]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (begin + i * 8 + column() + j % 2 >= min(end, keys_[tile][j / 2]))
            scores[tile][i][j] = minus_infinity();
      }
    }
  }

  const AttentionCall& call_;
  const AttentionSequence& sequence_;
  int keys_[kTiles][2];  // that each row sees
};

}  // namespace fovea
