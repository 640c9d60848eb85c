// SPDX-License-Identifier: Apache-2.0
// Which blocks of keys each block of queries sees in full, for each head:
//   score[a][b] = the largest product of a mean query of block a and a mean key of block b,
//   list[a] = block a itself, and those with the largest scores; of equal ones the first.
//
// A block of threads takes 16 blocks of queries, or 4 where all scores of 16 would not fit: four
// warps (or one) of 16 mean queries each, beside as many that take other steps of 64 mean
// keys. Products are bf16 by tensor cores, sums f32. The scores stay in shared memory as integers
// that compare alike; then a warp finds the smallest chosen score of a block bit by bit. No scores
// of rows are computed. sm_80 and later; up to most_chosen_from() blocks.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "ops/attention/attention_flash_warp_cuda.h"
#include "ops/attention/sparse/sparse_cuda.h"

namespace fovea {
namespace {

constexpr int kBlocksOfStep = kKeysOfStep / kGroupsOfBlock;
constexpr int kBlocksOfWarp = 16 / kGroupsOfBlock;
// Above every score: a block sees itself.
constexpr unsigned kOwn = 0xFFFFFFFFu;

struct ChooseCall {
  SparseRows rows;
  GroupMeans means;
  BlockLists lists;
};

template <int kDim, int kRowWarps>
struct ChooseLayout {
  static constexpr int kKeyWarps = kDim <= 80 ? 4 : 2;  // steps at a time
  static constexpr int kThreads = 32 * kRowWarps * kKeyWarps;
  static constexpr int kStride = kDim + 8;
  static constexpr int kQueries = 16 * kRowWarps;
  static constexpr int kBlocks = kBlocksOfWarp * kRowWarps;
  // In bf16s: queries, then two stages of keys, then scores [kBlocks][blocks].
  static constexpr int kKeys = kQueries * kStride;
  static constexpr int kStage = kKeyWarps * kKeysOfStep * kStride;
  static constexpr int kScores = kKeys + 2 * kStage;
  static constexpr size_t bytes(int blocks) {
    return kScores * sizeof(bf16) + size_t{kBlocks} * static_cast<size_t>(blocks) * sizeof(int);
  }
};

// Compares as the float does.
__device__ unsigned in_order(float value) {
  const unsigned bits = as_bits(value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// The warp's share of a step: scores of its 4 blocks of queries and 16 blocks of keys.
template <int kRowWarps>
__device__ void keep_scores(const float (&products)[8][4], int first_block, int blocks,
                            int row_warp, unsigned* scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = fmaxf(products[i][2 * half], products[i][2 * half + 1]);
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 4));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 8));
      const int key_block = first_block + 2 * i + lane % 4 / 2;
      const int query_block = row_warp * kBlocksOfWarp + 2 * half + lane / 16;
      if (lane % 2 == 0 && lane / 4 % 4 == 0 && key_block < blocks)
        scores[query_block * blocks + key_block] = in_order(most);
    }
  }
}

// The scores of a block of queries, of one warp: 32 at a time, a lane each. kChunks times 32 are in
// registers; with 0, they stay in shared memory, however many.
template <int kChunks>
class RowScores {
 public:
  __device__ RowScores(const unsigned* scores, int blocks)
      : scores_(scores), blocks_(blocks), lane_(static_cast<int>(threadIdx.x) % 32) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) kept_[i] = at(i);
  }
  // 0 behind the last.
  __device__ unsigned operator[](int chunk) const { return kChunks > 0 ? kept_[chunk] : at(chunk); }
  __device__ int chunks() const { return kChunks > 0 ? kChunks : ceil_div(blocks_, 32); }
  __device__ int count_from(unsigned least) const {
    int count = 0;
#pragma unroll
    for (int i = 0; i < chunks(); ++i)
      count += __popc(__ballot_sync(kAllLanes, static_cast<int>((*this)[i] >= least)));
    return count;
  }
  // The smallest of the `count` largest, or a number above the next.
  __device__ unsigned smallest_of(int count) const {
    unsigned least = 0;
#pragma unroll 1
    for (int bit = 31; bit >= 0; --bit) {
      const unsigned tried = least | 1u << bit;
      const int above = count_from(tried);
      if (above >= count) least = tried;
      if (above == count) break;
    }
    return least;
  }

 private:
  __device__ unsigned at(int chunk) const {
    const int block = chunk * 32 + lane_;
    return block < blocks_ ? scores_[block] : 0;
  }

  const unsigned* scores_;
  int blocks_;
  int lane_;
  unsigned kept_[kChunks > 0 ? kChunks : 1];
};

// Writes the list of a block of queries, by one warp.
template <int kChunks>
__device__ void write_list(const ChooseCall& call, int64_t choice, const unsigned* all) {
  const int blocks = call.rows.blocks;
  const int count = call.lists.room;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const RowScores<kChunks> scores(all, blocks);
  const unsigned least = scores.smallest_of(count);
  // Of those that are as large, the first.
  int equal = count - (least == kOwn ? 0 : scores.count_from(least + 1));
  RowSpan* to = call.lists.lists + choice * count;
  unsigned* words = call.lists.in_full == nullptr
                        ? nullptr
                        : call.lists.in_full + choice * ceil_div(blocks, kBlocksOfWord);
  const unsigned before = (1u << lane) - 1;
#pragma unroll
  for (int i = 0; i < scores.chunks(); ++i) {
    const int block = i * 32 + lane;
    if (i * 32 >= blocks) break;
    const unsigned score = scores[i];
    const bool is_equal = block < blocks && score == least;
    const unsigned equals = __ballot_sync(kAllLanes, static_cast<int>(is_equal));
    const bool is_chosen =
        (block < blocks && score > least) || (is_equal && __popc(equals & before) < equal);
    equal -= __popc(equals);
    const unsigned chosen = __ballot_sync(kAllLanes, static_cast<int>(is_chosen));
    if (is_chosen) to[__popc(chosen & before)] = call.rows.spans[block];
    to += __popc(chosen);
    if (words != nullptr && lane == 0) words[i] = chosen;
  }
}

__device__ void write_list(const ChooseCall& call, int64_t choice, unsigned* scores, int own) {
  if (threadIdx.x % 32 == 0) scores[own] = kOwn;
  __syncwarp();
  if (call.rows.blocks <= 64)
    write_list<2>(call, choice, scores);
  else if (call.rows.blocks <= 256)
    write_list<8>(call, choice, scores);
  else
    write_list<0>(call, choice, scores);
}

template <int kDim, int kRowWarps>
__global__ void __launch_bounds__(ChooseLayout<kDim, kRowWarps>::kThreads)
    choose_blocks(const __grid_constant__ ChooseCall call) {
  if constexpr (kTensorCores) {
    using Layout = ChooseLayout<kDim, kRowWarps>;
    bf16* shared = dynamic_shared<bf16>();
    auto* scores = reinterpret_cast<unsigned*>(shared + Layout::kScores);
    wait_for_previous();
    let_next_start();
    const SparseRows& rows = call.rows;
    const int head = static_cast<int>(blockIdx.y);
    const int first_query = static_cast<int>(blockIdx.x) * Layout::kQueries;
    const int slots = rows.blocks * kGroupsOfBlock;
    const int64_t of_head = int64_t{head} * slots * rows.head_dim;
    copy_rows<kDim, Layout::kQueries, Layout::kThreads>(
        shared, rows.head_dim, [&](int row) -> const bf16* {
          const int slot = first_query + row;
          return slot < slots ? call.means.queries + of_head + int64_t{slot} * rows.head_dim
                              : nullptr;
        });
    constexpr int kSlots = Layout::kKeyWarps * kKeysOfStep;
    const auto fetch = [&](int begin, int stage) {
      copy_rows<kDim, kSlots, Layout::kThreads>(
          shared + Layout::kKeys + stage * Layout::kStage, rows.head_dim,
          [&](int row) -> const bf16* {
            const int slot = begin + row;
            return slot < slots ? call.means.keys + of_head + int64_t{slot} * rows.head_dim
                                : nullptr;
          });
      end_copy_group();
    };
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row_warp = warp % kRowWarps;
    const int key_warp = warp / kRowWarps;
    FlashProducts<kDim, 1, true> products(shared, row_warp * 16);
    fetch(0, 0);  // in one group with the queries
    int stage = 0;
    for (int begin = 0; begin < slots; begin += kSlots, stage ^= 1) {
      wait_for_copies<0>();
      __syncthreads();
      if (begin == 0) products.keep_queries();
      if (begin + kSlots < slots) fetch(begin + kSlots, stage ^ 1);
      float scores_of_step[1][8][4];
      products.multiply_keys(shared + Layout::kKeys + stage * Layout::kStage +
                                 key_warp * kKeysOfStep * Layout::kStride,
                             scores_of_step);
      keep_scores<kRowWarps>(scores_of_step[0], begin / kGroupsOfBlock + key_warp * kBlocksOfStep,
                             rows.blocks, row_warp, scores);
    }
    __syncthreads();
    for (int i = warp; i < Layout::kBlocks; i += Layout::kThreads / 32) {
      const int block = first_query / kGroupsOfBlock + i;
      if (block < rows.blocks)
        write_list(call, int64_t{head} * rows.blocks + block, scores + i * rows.blocks, block);
    }
  }
}

template <int kDim, int kRowWarps>
void launch_rows(cudaStream_t stream, const ChooseCall& call) {
  using Layout = ChooseLayout<kDim, kRowWarps>;
  launch(choose_blocks<kDim, kRowWarps>,
         {.grid = dim3(static_cast<unsigned>(ceil_div(call.rows.blocks, Layout::kBlocks)),
                       static_cast<unsigned>(call.rows.heads)),
          .block = Layout::kThreads,
          .shared_bytes = Layout::bytes(call.rows.blocks),
          .stream = stream,
          .overlaps = true},
         call);
}

template <int kDim>
void launch_dim(cudaStream_t stream, const ChooseCall& call, size_t shared_bytes) {
  // Of few blocks, so that there is work for all multiprocessors; of many, since the scores of 16
  // blocks of queries have no room.
  constexpr int kFewBlocks = 128;
  constexpr int kManyBlocks = 512;
  if (call.rows.blocks > kFewBlocks && call.rows.blocks <= kManyBlocks &&
      ChooseLayout<kDim, 4>::bytes(call.rows.blocks) <= shared_bytes)
    launch_rows<kDim, 4>(stream, call);
  else
    launch_rows<kDim, 1>(stream, call);
}

// Calls it with the width that heads of head_dim values are computed in.
template <class Call>
auto of_width(int head_dim, const Call& call) {
  if (head_dim <= 16) return call(std::integral_constant<int, 16>());
  if (head_dim <= 32) return call(std::integral_constant<int, 32>());
  if (head_dim <= 64) return call(std::integral_constant<int, 64>());
  if (head_dim <= 80) return call(std::integral_constant<int, 80>());
  return call(std::integral_constant<int, 128>());
}

}  // namespace

int most_chosen_from(int head_dim, size_t shared_bytes) {
  return of_width(head_dim, [&](auto width) {
    using Layout = ChooseLayout<decltype(width)::value, 1>;
    const size_t others = Layout::bytes(0);
    if (others >= shared_bytes) return 0;
    const size_t room = (shared_bytes - others) / (Layout::bytes(1) - others);
    return static_cast<int>(std::min(room, size_t{kMostChosenFrom}));
  });
}

void choose_blocks_cuda(cudaStream_t stream, const SparseRows& rows, const GroupMeans& means,
                        const BlockLists& lists, size_t shared_bytes) {
  FOVEA_CHECK(rows.blocks <= most_chosen_from(rows.head_dim, shared_bytes) && lists.per_head &&
              lists.counts == nullptr);
  FOVEA_CHECK(lists.room > 0 && lists.room <= rows.blocks);
  const ChooseCall call{rows, means, lists};
  of_width(rows.head_dim,
           [&](auto width) { launch_dim<decltype(width)::value>(stream, call, shared_bytes); });
}

}  // namespace fovea
