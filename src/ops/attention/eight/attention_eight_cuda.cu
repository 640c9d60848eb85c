// SPDX-License-Identifier: Apache-2.0
// Attention in eight bits a value: the kernel of attention_long_kernel_cuda.h with operands of
// e4m3.
#include "ops/attention/eight/attention_eight_cuda.h"

#if defined(FOVEA_EMULATE)

namespace fovea {

bool attention_eight_takes(const AttentionShape& /*shape*/,
                           const AttentionWorkspace& /*workspace*/) {
  return false;
}
Status attention_eight_cuda(cudaStream_t /*stream*/, const AttentionShape& /*shape*/,
                            std::span<const EightSequence> /*sequences*/,
                            const EightTensors& /*tensors*/, bf16* /*out*/, int64_t /*out_stride*/,
                            AttentionWorkspace& /*workspace*/) {
  return failed("attention of eight bits is not emulated");
}

}  // namespace fovea

#else

#include "ops/attention/attention_long_launch_cuda.h"

namespace fovea {
namespace {

constexpr int kDim = 128;
using EightForm = LongForm<kDim, 2, 192, LongKeys::kEight>;

template <class Form>
Status make_tensors(LongTensors<1>& made, const AttentionShape& shape,
                    const EightTensors& tensors) {
  const auto heads = static_cast<uint64_t>(shape.heads);
  const auto kv_heads = static_cast<uint64_t>(shape.kv_heads);
  const auto q_rows = static_cast<uint64_t>(tensors.q_rows);
  const auto key_rows = static_cast<uint64_t>(tensors.key_rows);
  const auto put = [](TensorMap& to, const uint8_t* data, std::array<uint64_t, 3> size, int width,
                      int rows) {
    return put_tensor_map(to,
                          {.data = data,
                           .size = size,
                           .stride = {size[0], size[0] * size[1]},
                           .box = {static_cast<uint32_t>(width), static_cast<uint32_t>(rows), 1},
                           .value_bytes = 1});
  };
  Status done =
      put(made.queries, tensors.q, {kDim, q_rows, heads}, kDim, Form::kGroups * kLongRows);
  if (done) done = put(made.keys[0], tensors.keys, {kDim, key_rows, kv_heads}, kDim, Form::kKeys);
  if (done)
    done = put(made.values[0], tensors.values, {key_rows, kDim, kv_heads}, Form::kColumnKeys, kDim);
  return done;
}

template <class Form>
Status launch_eight(cudaStream_t stream, const AttentionShape& shape,
                    std::span<const EightSequence> sequences, const EightTensors& tensors,
                    LongCall call, int multiprocessors) {
  LongTensors<1> wide{};
  const LongRest<Form> rest{};
  if (Status made = make_tensors<Form>(wide, shape, tensors); !made) return made;
  call.scales = tensors.scales;
  while (!sequences.empty()) {
    const auto some = sequences.first(std::min<size_t>(sequences.size(), kLongSequences));
    call.plan.count = 0;
    for (const EightSequence& sequence : some)
      call.plan.sequences[call.plan.count++] = {
          .q_begin = sequence.q_begin,
          .queries = sequence.q_count,
          .keys = sequence.key_count,
          .first_query = shape.causal ? sequence.first_query : sequence.key_count,
          .first_key = sequence.first_key,
          .first_tile = 0,
          .large = 0,
          .small = 0};
    choose_long_plan(call.plan, Form::kGroups, multiprocessors, shape.causal,
                     2.0 * shape.kv_heads * shape.head_dim);
    launch_attend_long<Form>(stream, multiprocessors, wide, rest, call);
    call.scales += some.size() * static_cast<size_t>(shape.heads + 2 * shape.kv_heads);
    sequences = sequences.subspan(some.size());
  }
  return Done{};
}

}  // namespace

bool attention_eight_takes(const AttentionShape& shape, const AttentionWorkspace& workspace) {
  return workspace.warpgroups() && shape.head_dim == kDim;
}

Status attention_eight_cuda(cudaStream_t stream, const AttentionShape& shape,
                            std::span<const EightSequence> sequences, const EightTensors& tensors,
                            bf16* out, int64_t out_stride, AttentionWorkspace& workspace) {
  const LongCall call = long_call(shape, out, out_stride, workspace);
  return launch_eight<EightForm>(stream, shape, sequences, tensors, call,
                                 workspace.multiprocessors());
}

}  // namespace fovea

#endif
