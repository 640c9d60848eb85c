// SPDX-License-Identifier: Apache-2.0
// Attention by tensor cores where keys are few and time is latency: all keys and values are asked
// for at once, and a row's keys are shared by the warps of a block, each of which takes one step.
//
// Warp (row warp, key warp) of a block takes 16 rows of a key head and an even share of the keys,
// as a warp of attention_flash_cuda.cu does; then the key warps of a row are put together through
// shared memory, in order. More keys than have room come in rounds. Blocks have as few rows as
// leave each a multiprocessor for itself. It takes what attention_flash_cuda takes.
#include "ops/attention/attention_join_cuda.h"

namespace fovea {
namespace {

constexpr int kKeyWarps = 4;
constexpr int kMostRowWarps = 3;
// Blocks for each multiprocessor, and keys: where even blocks of the most rows are more, the other
// kernel wins, which reads keys less often.
constexpr int kShortBlocks = 1;
constexpr int kShortKeys = 512;

template <int kDim, int kRowWarps>
struct ShortLayout {
  static constexpr int kThreads = 32 * kRowWarps * kKeyWarps;
  static constexpr int kRows = 16 * kRowWarps;
  static constexpr int kStride = kDim + 8;
  // That registers leave room for on a multiprocessor.
  static constexpr int kBlocks = kRowWarps == 2 && kDim <= 64 ? 2 : 1;
  // Keys that a warp takes in a round, and in one that has few: the scores are in registers.
  static constexpr int kMany = kDim <= 80 ? 80 : 64;
  static constexpr int kFew = kDim <= 80 ? 48 : 32;

  using Join = KeyWarpsJoin<kDim, kRowWarps, kKeyWarps>;
  // Floats: the weights of the join, the biases of a round; then bf16: queries, and keys and
  // values, whose place the sums of the join take in the end.
  static constexpr int kBias = Join::kWeights;
  static constexpr int kQueries = kBias + kKeyWarps * kMany;
  static constexpr int kKeys = kQueries + kRows * kStride / 2;
  static constexpr size_t bytes(int keys_of_warp) {
    const int rows = keys_of_warp > kRows ? keys_of_warp : kRows;
    return static_cast<size_t>(kKeys + kKeyWarps * rows * kStride) * sizeof(float);
  }
};

template <int kDim, int kRowWarps>
class ShortBlock {
 public:
  using Layout = ShortLayout<kDim, kRowWarps>;

  __device__ ShortBlock(const AttentionCall& call, const AttentionSequence& sequence, int kv_head,
                        int row_begin, int rows)
      : call_(call),
        sequence_(sequence),
        kv_head_(kv_head),
        row_begin_(row_begin),
        rows_(rows),
        first_row_(static_cast<int>(threadIdx.x) / 32 % kRowWarps * 16),
        key_warp_(static_cast<int>(threadIdx.x) / 32 / kRowWarps),
        keys_(keys_of_row(call, sequence, row_begin + rows - 1)),
        shared_(dynamic_shared<float>()) {}

  // `keys_of_warp`: how many there is room for, kMany or kFew.
  __device__ void run(int keys_of_warp) {
    if (keys_ <= 0) return;
    copy_rows<kDim, Layout::kRows, Layout::kThreads>(
        queries(), call_.head_dim, [&](int row) -> const bf16* {
          if (row >= rows_) return nullptr;
          return call_.q +
                 offset_of_row(call_, sequence_, kv_head_, row_begin_ + row, call_.q_stride);
        });
    int round_keys = fetch(0, keys_of_warp);  // in one group with the queries
    RowsWarp warp(call_, sequence_, queries(), row_begin_, first_row_);
#pragma unroll 1
    for (int begin = 0;;) {
      if (round_keys == kKeyWarps * Layout::kMany)
        see_round<Layout::kMany>(begin, warp);
      else
        see_round<Layout::kFew>(begin, warp);
      __syncthreads();  // nobody reads keys or values any more
      begin += round_keys;
      if (begin >= keys_) break;
      round_keys = fetch(begin, keys_of_warp);
    }
    warp.finish();
    typename Layout::Join join(shared_, shared_ + Layout::kKeys);
    join.share(warp, key_warp_);
    __syncthreads();
    join.write(call_, sequence_, kv_head_, row_begin_, rows_);
  }

 private:
  using RowsWarp = FlashWarp<kDim, 1, false>;

  __device__ bf16* queries() const { return reinterpret_cast<bf16*>(shared_ + Layout::kQueries); }
  __device__ bf16* keys() const { return reinterpret_cast<bf16*>(shared_ + Layout::kKeys); }

  // Asks for the keys of a round that begins there, and for its values; says how many they are.
  __device__ int fetch(int begin, int keys_of_warp) {
    constexpr int kFew = kKeyWarps * Layout::kFew;
    constexpr int kMany = kKeyWarps * Layout::kMany;
    const bool many = keys_of_warp > Layout::kFew && keys_ - begin > kFew;
    if (many)
      fetch_round<kMany>(begin);
    else
      fetch_round<kFew>(begin);
    return many ? kMany : kFew;
  }

  // Keys first, then values: those are on their way while scores are computed.
  template <int kRoundKeys>
  __device__ void fetch_round(int begin) {
    const int64_t head = offset_of_head(call_, sequence_, kv_head_);
    const auto row_of = [&](const bf16* all) {
      return [&, all](int row) -> const bf16* {
        const int key = begin + row;
        return key < keys_ ? all + head + int64_t{key} * call_.head_dim : nullptr;
      };
    };
    copy_rows<kDim, kRoundKeys, Layout::kThreads>(keys(), call_.head_dim, row_of(sequence_.keys));
    end_copy_group();
    copy_rows<kDim, kRoundKeys, Layout::kThreads>(keys() + kRoundKeys * Layout::kStride,
                                                  call_.head_dim, row_of(sequence_.values));
    end_copy_group();
    if (sequence_.key_bias == nullptr) return;
    for (int i = static_cast<int>(threadIdx.x); i < min(kRoundKeys, keys_ - begin);
         i += Layout::kThreads)
      shared_[Layout::kBias + i] = sequence_.key_bias[begin + i];
  }

  template <int kWarpKeys>
  __device__ void see_round(int begin, RowsWarp& warp) {
    const int first = key_warp_ * kWarpKeys;
    const bf16* warp_keys = keys() + first * Layout::kStride;
    const bf16* warp_values = warp_keys + kKeyWarps * kWarpKeys * Layout::kStride;
    // What the last of the warp's rows sees; none where the warp has no rows.
    const int last_row = min(first_row_ + 16, rows_) - 1;
    const int end =
        last_row < first_row_ ? 0 : keys_of_row(call_, sequence_, row_begin_ + last_row);
    const int seen_by_all = keys_of_row(call_, sequence_, row_begin_ + first_row_);
    wait_for_copies<1>();
    __syncthreads();
    if (begin + first < end) {
      float weights[1][kWarpKeys / 8][4];
      warp.weigh_keys(warp_keys, shared_ + Layout::kBias + first, begin + first, end,
                      begin + first + kWarpKeys > min(end, seen_by_all), weights);
      wait_for_values();
      warp.multiply_values(warp_values, weights);
    } else {
      wait_for_values();
    }
  }
  __device__ static void wait_for_values() {
    wait_for_copies<0>();
    __syncthreads();
  }

  const AttentionCall& call_;
  const AttentionSequence& sequence_;
  int kv_head_;
  int row_begin_;
  int rows_;
  int first_row_;  // of this warp
  int key_warp_;
  int keys_;  // that the last row sees
  float* shared_;
};

template <int kDim, int kRowWarps>
__global__ void __launch_bounds__(ShortLayout<kDim, kRowWarps>::kThreads,
                                  ShortLayout<kDim, kRowWarps>::kBlocks)
    attend_short(const __grid_constant__ AttentionCall call, int keys_of_warp) {
  if constexpr (kTensorCores) {
    let_next_start();
    wait_for_previous();
    const AttentionSequence sequence = read_sequence(call);
    // The last rows see most keys: they begin first.
    const int row_begin = static_cast<int>(gridDim.x - 1 - blockIdx.x) * 16 * kRowWarps;
    const int rows = min(16 * kRowWarps, sequence.q_count * call.group - row_begin);
    if (rows <= 0) return;
    ShortBlock<kDim, kRowWarps>(call, sequence, static_cast<int>(blockIdx.y), row_begin, rows)
        .run(keys_of_warp);
  }
}

int64_t blocks_of(const AttentionShape& shape, int group, int row_warps) {
  return ceil_div(int64_t{shape.max_q_count} * group, int64_t{16 * row_warps}) * shape.kv_heads *
         shape.sequences;
}

template <int kDim, int kRowWarps>
void launch_short(cudaStream_t stream, const AttentionShape& shape, const AttentionCall& call) {
  using Layout = ShortLayout<kDim, kRowWarps>;
  const int keys_of_warp =
      shape.max_key_count > kKeyWarps * Layout::kFew ? Layout::kMany : Layout::kFew;
  launch(
      attend_short<kDim, kRowWarps>,
      {.grid = dim3(static_cast<unsigned>(ceil_div(shape.max_q_count * call.group, Layout::kRows)),
                    static_cast<unsigned>(shape.kv_heads), static_cast<unsigned>(shape.sequences)),
       .block = Layout::kThreads,
       .shared_bytes = Layout::bytes(keys_of_warp),
       .stream = stream,
       .overlaps = true},
      call, keys_of_warp);
}

template <int kDim>
void launch_dim(cudaStream_t stream, const AttentionShape& shape, const AttentionCall& call,
                int row_warps) {
  if (row_warps == 1)
    launch_short<kDim, 1>(stream, shape, call);
  else if (row_warps == 2)
    launch_short<kDim, 2>(stream, shape, call);
  else
    launch_short<kDim, kMostRowWarps>(stream, shape, call);
}

}  // namespace

bool attention_short_takes(const AttentionShape& shape, const AttentionCall& call,
                           const AttentionWorkspace& workspace) {
  return shape.max_key_count <= kShortKeys &&
         blocks_of(shape, call.group, kMostRowWarps) <= kShortBlocks * workspace.multiprocessors();
}

void attention_short_cuda(cudaStream_t stream, const AttentionShape& shape, AttentionCall call,
                          AttentionWorkspace& workspace) {
  // On an H200 blocks of 16 rows are never the fastest: each reads all keys for little work.
  int row_warps = 2;
  while (row_warps < kMostRowWarps &&
         blocks_of(shape, call.group, row_warps) > kShortBlocks * workspace.multiprocessors())
    ++row_warps;
  attention_short_cuda(stream, shape, call, row_warps);
}

void attention_short_cuda(cudaStream_t stream, const AttentionShape& shape,
                          const AttentionCall& call, int row_warps) {
  if (shape.head_dim <= 32)
    launch_dim<32>(stream, shape, call, row_warps);
  else if (shape.head_dim <= 64)
    launch_dim<64>(stream, shape, call, row_warps);
  else if (shape.head_dim <= 80)
    launch_dim<80>(stream, shape, call, row_warps);
  else
    launch_dim<128>(stream, shape, call, row_warps);
}

}  // namespace fovea
