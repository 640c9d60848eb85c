// SPDX-License-Identifier: Apache-2.0
// Attention of many rows to many keys on sm_90a, of several sequences, causal or not.
//   scores = q k' of the keys of a step, in registers; weights = 2^(scores - largest so far);
//   sums += weights v.
//
// A block is a warpgroup that copies and 2 or 3 that multiply, 64 rows of a head each. Keys and
// values come a step at a time (LongForm: 128 keys) through two places in shared memory. A
// warpgroup begins the products for the next scores and for the sums of the weights before, and
// weighs those scores while the sums are on their way; warpgroups take turns to begin, so that one
// multiplies while others weigh. Blocks stay and take tile after tile, each as it becomes free;
// which come first is chosen so that all multiprocessors end at about the same time
// (attention_long_tiles_cuda.h). A tile ends with the last key that one of its rows sees.
// Products are bf16, sums f32, weights are rounded to bf16; with keys of eight bits, products and
// weights are e4m3. Heads of 64, 72, 80 and 128 values. Not emulated.
#pragma once

#include "ops/attention/attention_long_rows_cuda.h"

namespace fovea {

template <class Form>
__global__ void __launch_bounds__(Form::kThreads, 1)
    attend_long(const __grid_constant__ LongTensors<Form::kMaps> wide,
                const __grid_constant__ LongRest<Form> rest,
                const __grid_constant__ LongCall call) {
#if defined(FOVEA_WARPGROUPS)
  using Layout = LongLayout<Form>;
  auto* bytes = dynamic_shared<unsigned char>();
  constexpr uint32_t kMask = kTensorAlignment - 1;
  bytes += (kTensorAlignment - (shared_address(bytes) & kMask)) & kMask;
  Layout& shared = *reinterpret_cast<Layout*>(bytes);
  if (threadIdx.x == 0) make_long_barriers<Form>(shared);
  __syncthreads();
  wait_for_previous();
  let_next_start();
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (group == Form::kGroups) {
    give_registers<Form::kCopyRegisters>();
    if (threadIdx.x % kWarpgroup == 0) LongCopies<Form>(wide, rest, call, shared).run();
  } else {
    take_registers<Form::kRegisters>();
    LongRows<Form>(call, shared, group).run();
  }
#else
  __trap();  // compiled without warpgroups: an error, not a wrong answer
#endif
}

template <class Form>
void launch_attend_long(cudaStream_t stream, int multiprocessors,
                        const LongTensors<Form::kMaps>& wide, const LongRest<Form>& rest,
                        const LongCall& call) {
  launch(attend_long<Form>,
         {.grid = static_cast<unsigned>(std::min(call.plan.tiles, multiprocessors)),
          .block = Form::kThreads,
          .shared_bytes = sizeof(LongLayout<Form>) + kTensorAlignment,
          .stream = stream,
          .overlaps = true},
         wide, rest, call);
}

// A tensor map that becomes part of a launch.
inline Status put_tensor_map(TensorMap& to, const TensorBox& box) {
  const auto map = tensor_map(box);
  if (!map) return map.error();
  to = *map;
  return Done{};
}

}  // namespace fovea
