// SPDX-License-Identifier: Apache-2.0
// Attention by tensor cores of short sequences straight from the product that made their queries,
// keys and values. All that a block needs is asked for at once; queries and keys are rotated on
// their way to shared memory, in f32 and rounded as rotate_heads_cuda does.
//
// A block takes 16 kRowWarps rows of a head and all keys of their sequence. Warp (row warp, key
// warp) takes 16 rows and an even share of the keys, in one step or several; then the key warps of
// a row are put together through shared memory, in order. The angles of all keys are twice as many
// bytes as the keys: blocks of a cluster rotate the keys of their head once, and write them to each
// other's memory. Products are bf16, sums f32, weights are rounded to bf16. Heads of multiples of 8
// values up to 128, filled up with zeros; sequences whose keys and values shared memory holds;
// sm_80 or later.
#include "ops/attention/attention_rotary_cuda.h"

#include "base/check.h"
#include "ops/attention/attention_rotary_parts_cuda.h"

namespace fovea {
namespace {

constexpr int kFewestRowWarps = 2;
constexpr int kMostRowWarps = 4;
// Of longer sequences keys are better read rotated, by blocks of more rows.
constexpr int kRotaryKeys = 512;
// Blocks for each multiprocessor: where they are more, rotating keys in each of them costs more
// than a kernel that rotates them once.
constexpr int kRotaryBlocks = 2;

__device__ inline AttentionSequence sequence_of(const RotaryCall& given) {
  AttentionSequence sequence;
  if (given.call.sequences != nullptr)
    sequence = read_sequence(given.call);
  else
    sequence.q_count = given.alone;
  sequence.key_count = sequence.q_count;
  return sequence;
}

template <int kDim, bool kWhole, int kRowWarps, bool kShared>
__global__ void __launch_bounds__(RotaryLayout<kDim, kWhole, kRowWarps, kShared>::kThreads,
                                  RotaryLayout<kDim, kWhole, kRowWarps, kShared>::kBlocks)
    attend_rotary(const __grid_constant__ RotaryCall given) {
  if constexpr (kTensorCores) {
    let_next_start();
    if constexpr (kShared) begin_cluster();
    AttentionCall call = given.call;
    call.group = 1;
    call.causal = false;
    if (kWhole) call.head_dim = kDim;
    const AttentionSequence sequence = sequence_of(given);
    RotaryBlock<kDim, kWhole, kRowWarps, kShared> block(given, call, sequence);
    wait_for_previous();
    block.run();
  }
}

template <int kDim, bool kWhole, int kRowWarps, bool kShared>
void launch_rotary(cudaStream_t stream, const AttentionShape& shape, RotaryCall call) {
  using Layout = RotaryLayout<kDim, kWhole, kRowWarps, kShared>;
  call.key_rows = ceil_div(shape.max_q_count, 16) * 16;
  const int row_blocks = ceil_div(shape.max_q_count, Layout::kRows);
  launch(attend_rotary<kDim, kWhole, kRowWarps, kShared>,
         {.grid = dim3(static_cast<unsigned>(ceil_div(row_blocks, call.cluster) * call.cluster),
                       static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.sequences)),
          .block = Layout::kThreads,
          .shared_bytes = Layout::bytes(call.key_rows),
          .stream = stream,
          .overlaps = true,
          .cluster = call.cluster},
         call);
}

// Heads of 64 values, those of most towers.
void launch_whole(cudaStream_t stream, const AttentionShape& shape, const RotaryCall& call,
                  int row_warps) {
  if (call.cluster > 1 && row_warps == 2)
    launch_rotary<64, true, 2, true>(stream, shape, call);
  else if (call.cluster > 1)
    launch_rotary<64, true, 3, true>(stream, shape, call);
  else if (row_warps == 2)
    launch_rotary<64, true, 2, false>(stream, shape, call);
  else if (row_warps == 3)
    launch_rotary<64, true, 3, false>(stream, shape, call);
  else
    launch_rotary<64, true, kMostRowWarps, false>(stream, shape, call);
}

int64_t blocks_of(const AttentionShape& shape, int row_warps) {
  return int64_t{ceil_div(shape.max_q_count, 16 * row_warps)} * shape.heads * shape.sequences;
}

// As many rows as leave each block a multiprocessor for itself.
RotaryForm form_of(const AttentionShape& shape, const AttentionWorkspace& workspace) {
  RotaryForm form;
  form.row_warps = kFewestRowWarps;
  while (form.row_warps < kMostRowWarps &&
         blocks_of(shape, form.row_warps) > workspace.multiprocessors())
    ++form.row_warps;
  return form;
}

size_t bytes_of(const AttentionShape& shape, const RotaryForm& form) {
  const int key_rows = ceil_div(shape.max_q_count, 16) * 16;
  if (shape.head_dim > 80) return RotaryLayout<128, false, 3, false>::bytes(key_rows);
  if (shape.head_dim > 64) return RotaryLayout<80, false, 3, false>::bytes(key_rows);
  if (shape.head_dim < 64 || form.row_warps == 3)
    return RotaryLayout<64, false, 3, false>::bytes(key_rows);
  if (form.row_warps == 2) return RotaryLayout<64, true, 2, false>::bytes(key_rows);
  return RotaryLayout<64, true, kMostRowWarps, false>::bytes(key_rows);
}

}  // namespace

bool attention_rotary_takes(const AttentionShape& shape, const AttentionWorkspace& workspace,
                            KernelChoice choice) {
  return choice == KernelChoice::kBest && workspace.tensor_cores() && !shape.causal &&
         shape.heads == shape.kv_heads && shape.head_dim % 8 == 0 &&
         shape.max_q_count <= kRotaryKeys &&
         bytes_of(shape, form_of(shape, workspace)) <= workspace.shared_bytes() &&
         blocks_of(shape, kMostRowWarps) <= kRotaryBlocks * workspace.multiprocessors();
}

void attention_rotary_cuda(cudaStream_t stream, const AttentionShape& shape, const RotaryRows& rows,
                           bf16* out, int64_t out_stride, const AttentionWorkspace& workspace) {
  attention_rotary_cuda(stream, shape, rows, out, out_stride, form_of(shape, workspace));
}

void attention_rotary_cuda(cudaStream_t stream, const AttentionShape& shape, const RotaryRows& rows,
                           bf16* out, int64_t out_stride, const RotaryForm& form) {
  FOVEA_CHECK(shape.heads == shape.kv_heads && !shape.causal && shape.head_dim % 8 == 0);
  FOVEA_CHECK(out_stride % 8 == 0 && form.cluster >= 1 && form.cluster <= 8);
  FOVEA_CHECK(rows.sequences != nullptr || shape.sequences == 1);
  if (shape.sequences <= 0 || shape.max_q_count <= 0) return;
  RotaryCall call{
      .call = attention_call(shape, rows.sequences, rows.qkv,
                             int64_t{3} * shape.heads * shape.head_dim, out, out_stride),
      .cos = rows.cos,
      .sin = rows.sin,
      .alone = shape.max_q_count,
      .key_rows = 0,
      .cluster = shape.head_dim == 64 ? form.cluster : 1};
  if (shape.head_dim == 64)
    launch_whole(stream, shape, call, form.row_warps);
  else if (shape.head_dim < 64)
    launch_rotary<64, false, 3, false>(stream, shape, call);
  else if (shape.head_dim <= 80)
    launch_rotary<80, false, 3, false>(stream, shape, call);
  else
    launch_rotary<128, false, 3, false>(stream, shape, call);
}

}  // namespace fovea
