// SPDX-License-Identifier: Apache-2.0
// What a block of attention_long_cuda has in shared memory, and how its tiles come there.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device/cuda/tensor_copy.h"
#include "device/cuda/warpgroup.h"
#include "device/cuda/warpgroup_eight.h"
#include "ops/attention/attention_long_tiles_cuda.h"
#include "ops/attention/attention_parts_cuda.h"

namespace fovea {

// A piece of a row in shared memory, of 64 bf16. The rest of a head, up to 16 values, lies apart.
inline constexpr int kLongPieceBytes = 128;
inline constexpr int kLongWide = 64;
inline constexpr int kLongPageKeys = 64;

enum class LongKeys {
  kPlain,  // [kv_heads][capacity][head_dim] each
  kPages,  // pages of [kv_heads][keys, values][64][head_dim]
  kEight,  // e4m3: keys [kv_heads][rows][head_dim], values [kv_heads][head_dim][rows]
};

// How a block attends: heads of kValues values (80 for 72 too), kWarpgroups that multiply, a step
// of kStepKeys keys.
template <int kValues, int kWarpgroups, int kStepKeys, LongKeys kWhich = LongKeys::kPlain>
struct LongForm {
  static constexpr int kDim = kValues;
  static constexpr int kGroups = kWarpgroups;
  static constexpr int kKeys = kStepKeys;

  static constexpr bool kEight = kWhich == LongKeys::kEight;
  static constexpr bool kPaged = kWhich == LongKeys::kPages;
  static constexpr int kPieceValues = kEight ? kLongPieceBytes : kLongWide;
  static constexpr int kPieces = kDim / kPieceValues;
  static constexpr int kRest = kDim % kPieceValues;
  static_assert(kRest <= 16 && (kRest == 0 || kWhich == LongKeys::kPlain));
  // Values of a step of eight bits lie by their columns, in pieces of so many keys.
  static constexpr int kColumnKeys = kKeys % 128 == 0 ? 128 : kKeys % 64 == 0 ? 64 : 32;
  static constexpr int kStages = 2;  // places of a step in shared memory
  // Tensor maps are 128 bytes each, and a kernel's parameters 4 KB.
  static constexpr int kSequences = kRest > 0 ? kLongSequences / 2 : kLongSequences;
  static constexpr int kMaps = kWhich == LongKeys::kPlain ? kSequences : 1;
  static constexpr int kThreads = (kGroups + 1) * kWarpgroup;
  // Of a thread, 65,536 or 64,512 in all: no more than there were when the block began.
  static constexpr int kRegisters = kGroups == 3 ? 160 : kPaged ? 232 : 240;
  static constexpr int kCopyRegisters = kGroups == 3 ? 32 : kPaged ? 40 : 24;
};

template <int kMaps>
struct LongTensors {
  TensorMap queries;      // of all sequences
  TensorMap keys[kMaps];  // of each; or one of all
  TensorMap values[kMaps];
};
struct LongNoTensors {};
template <class Form>
using LongRest = std::conditional_t<(Form::kRest > 0), LongTensors<Form::kMaps>, LongNoTensors>;

struct LongCall {
  bf16* out;  // [rows][heads][head_dim], rows out_stride apart
  int64_t out_stride;
  unsigned* taken;  // 0 before and after: how many tiles blocks took beside their first ones
  int group;        // heads that share keys
  int head_dim;
  float scale;                       // times log2(e)
  const int* pages[kLongSequences];  // of pages: the page table of each sequence
  const float* scales;  // of eight bits: [sequences][of heads, of keys' heads, of values' heads]
  LongPlan plan;
};

template <class Form>
struct LongLayout {
  // In bytes.
  static constexpr int kQueryPiece = Form::kGroups * kLongRows * kLongPieceBytes;
  static constexpr int kQueries = kQueryPiece * Form::kPieces;
  static constexpr int kPiece = Form::kKeys * kLongPieceBytes;
  static constexpr int kStep = kPiece * Form::kPieces;
  static constexpr int kRestQueries = Form::kGroups * kLongRows * Form::kRest * 2;
  static constexpr int kRestStep = Form::kKeys * Form::kRest * 2;

  alignas(kTensorAlignment) unsigned char queries[kQueries];
  unsigned char keys[Form::kStages][kStep];
  unsigned char values[Form::kStages][kStep];
  unsigned char rest_queries[std::max(kRestQueries, 1)];
  alignas(kTensorAlignment) unsigned char rest_keys[Form::kStages][std::max(kRestStep, 1)];
  unsigned char rest_values[Form::kStages][std::max(kRestStep, 1)];
  SharedBarrier queries_are_here;
  SharedBarrier queries_are_free;
  SharedBarrier keys_are_here[Form::kStages];
  SharedBarrier keys_are_free[Form::kStages];
  SharedBarrier values_are_here[Form::kStages];
  SharedBarrier values_are_free[Form::kStages];
  LongTile tiles[2];  // by turns; no keys: there are no more
};

// Which place of a ring comes next, and the parity of its phase.
template <int kStages>
struct RingPlace {
  int stage = 0;
  int parity = 0;
  __device__ void step() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <class Form>
__device__ void make_long_barriers(LongLayout<Form>& shared) {
  constexpr int kWarps = Form::kGroups * 4;
  make_barrier(&shared.queries_are_here, 1);
  make_barrier(&shared.queries_are_free, kWarps);
  for (int i = 0; i < Form::kStages; ++i) {
    make_barrier(&shared.keys_are_here[i], 1);
    make_barrier(&shared.keys_are_free[i], kWarps);
    make_barrier(&shared.values_are_here[i], 1);
    make_barrier(&shared.values_are_free[i], kWarps);
  }
  publish_barriers();
}

// What one thread of a block does: it takes tile after tile and has them copied.
template <class Form>
class LongCopies {
  using Layout = LongLayout<Form>;
  using Tensors = LongTensors<Form::kMaps>;

 public:
  __device__ LongCopies(const Tensors& wide, const LongRest<Form>& rest, const LongCall& call,
                        Layout& shared)
      : wide_(wide), rest_(rest), call_(call), shared_(shared) {}

  __device__ void run() {
    const int tiles = call_.plan.tiles;
    int index = static_cast<int>(blockIdx.x);
    for (int parity = 0;; parity ^= 1) {
      // All have done with the tile before; what it was is told no longer than that.
      wait_for_phase(&shared_.queries_are_free, parity ^ 1);
      LongTile& tile = shared_.tiles[parity];
      if (index >= tiles) {
        tile.keys = 0;
        break;
      }
      LongTile next = long_tile<Form::kGroups>(call_.plan, index);
      if constexpr (Form::kEight) set_scales(next);
      tile = next;
      copy_tile(next);
      index = next_tile();
    }
    arrive(&shared_.queries_are_here);
  }

 private:
  // Blocks take tiles as they become free. Each is told once that there are no more: then the count
  // is 0 again.
  __device__ int next_tile() {
    const int blocks = static_cast<int>(gridDim.x);
    const int tiles = call_.plan.tiles;
    if (tiles <= blocks) return tiles;
    return blocks + static_cast<int>(count_in_order(call_.taken, static_cast<unsigned>(tiles - 1)));
  }

  __device__ void set_scales(LongTile& tile) const {
    const int kv_heads = call_.plan.heads / call_.group;
    const int kv_head = tile.head / call_.group;
    const float* scales = call_.scales + tile.sequence * (call_.plan.heads + 2 * kv_heads);
    const float* of_keys = scales + call_.plan.heads;
    tile.scale = call_.scale * scales[tile.head] * of_keys[kv_head];
    tile.out_scale = of_keys[kv_heads + kv_head];
  }

  __device__ void copy_tile(const LongTile& tile) {
    copy_queries(tile);
#pragma unroll 1
    for (int key = 0; key < tile.keys; key += Form::kKeys, place_.step()) {
      const int stage = place_.stage;
      wait_for_phase(&shared_.keys_are_free[stage], place_.parity ^ 1);
      arrive_and_promise(&shared_.keys_are_here[stage], Layout::kStep + Layout::kRestStep);
      copy_step<false>(tile, key, &shared_.keys_are_here[stage], shared_.keys[stage],
                       shared_.rest_keys[stage]);
      wait_for_phase(&shared_.values_are_free[stage], place_.parity ^ 1);
      arrive_and_promise(&shared_.values_are_here[stage], Layout::kStep + Layout::kRestStep);
      copy_step<true>(tile, key, &shared_.values_are_here[stage], shared_.values[stage],
                      shared_.rest_values[stage]);
    }
  }

  __device__ void copy_queries(const LongTile& tile) {
    const int row = call_.plan.sequences[tile.sequence].q_begin + tile.row;
    SharedBarrier* here = &shared_.queries_are_here;
    arrive_and_promise(here, Layout::kQueries + Layout::kRestQueries);
    if constexpr (Form::kEight) {
      copy_box(shared_.queries, wide_.queries, here, 0, row, tile.head);
    } else {
      for (int i = 0; i < Form::kPieces; ++i)
        copy_box(shared_.queries + i * Layout::kQueryPiece, wide_.queries, here, i * kLongWide,
                 tile.head, row);
      if constexpr (Form::kRest > 0)
        copy_box(shared_.rest_queries, rest_.queries, here, kLongWide, tile.head, row);
    }
  }

  // The keys, or values, from `key` on.
  template <bool kValues>
  __device__ void copy_step(const LongTile& tile, int key, SharedBarrier* here, unsigned char* to,
                            unsigned char* rest_to) {
    const int kv_head = tile.head / call_.group;
    if constexpr (Form::kEight) {
      key += call_.plan.sequences[tile.sequence].first_key;
      if constexpr (kValues) {
        for (int i = 0; i < Form::kKeys / Form::kColumnKeys; ++i)
          copy_box(to + i * Form::kDim * Form::kColumnKeys, wide_.values[0], here,
                   key + i * Form::kColumnKeys, 0, kv_head);
      } else {
        copy_box(to, wide_.keys[0], here, 0, key, kv_head);
      }
    } else if constexpr (Form::kPaged) {
      const int last = (call_.plan.sequences[tile.sequence].keys - 1) / kLongPageKeys;
      const int* pages = call_.pages[tile.sequence];
      for (int page = 0; page < Form::kKeys / kLongPageKeys; ++page) {
        const int number = pages[min(key / kLongPageKeys + page, last)];
        const int kv_heads = call_.plan.heads / call_.group;
        const int at = (number * kv_heads + kv_head) * 2 + (kValues ? 1 : 0);
        for (int i = 0; i < Form::kPieces; ++i)
          copy_box(to + i * Layout::kPiece + page * kLongPageKeys * kLongPieceBytes, wide_.keys[0],
                   here, i * kLongWide, 0, at);
      }
    } else {
      const TensorMap& map = (kValues ? wide_.values : wide_.keys)[tile.sequence];
      for (int i = 0; i < Form::kPieces; ++i)
        copy_box(to + i * Layout::kPiece, map, here, i * kLongWide, key, kv_head);
      if constexpr (Form::kRest > 0)
        copy_box(rest_to, (kValues ? rest_.values : rest_.keys)[tile.sequence], here, kLongWide,
                 key, kv_head);
    }
  }

  const Tensors& wide_;
  const LongRest<Form>& rest_;
  const LongCall& call_;
  Layout& shared_;
  RingPlace<Form::kStages> place_;
};

}  // namespace fovea
