// SPDX-License-Identifier: Apache-2.0
// Attention of many rows to many keys of bf16: the launches of attention_long_kernel_cuda.h.
#include "ops/attention/attention_long_cuda.h"

#if defined(FOVEA_EMULATE)

namespace fovea {

bool attention_long_takes(const AttentionShape& /*shape*/,
                          std::span<const AttentionSequence> /*sequences*/, int64_t /*q_stride*/,
                          const AttentionWorkspace& /*workspace*/) {
  return false;
}
bool attention_long_is_compiled() { return false; }
Status attention_long_cuda(cudaStream_t /*stream*/, const AttentionShape& /*shape*/,
                           std::span<const AttentionSequence> /*sequences*/, const bf16* /*q*/,
                           int64_t /*q_stride*/, bf16* /*out*/, int64_t /*out_stride*/,
                           AttentionWorkspace& /*workspace*/) {
  return failed("attention of many rows is not emulated");
}

}  // namespace fovea

#else

#include <algorithm>

#include "ops/attention/attention_long_launch_cuda.h"

namespace fovea {
namespace {

template <int kMaps>
Status make_tensors(LongTensors<kMaps>& made, const AttentionShape& shape, LongSequences sequences,
                    const bf16* q, int64_t q_stride, int values, int query_rows, int key_rows) {
  const auto dim = static_cast<uint64_t>(shape.head_dim);
  const auto width = static_cast<uint32_t>(values);
  Status done = put_queries(made.queries, shape, sequences, q, q_stride, values, query_rows);
  for (size_t i = 0; done && i < sequences.size(); ++i) {
    const AttentionSequence& sequence = sequences[i];
    const int64_t layer =
        int64_t{shape.layer} * shape.kv_heads * sequence.capacity * shape.head_dim;
    TensorBox box{.data = sequence.keys + layer,
                  .size = {dim, static_cast<uint64_t>(sequence.key_count),
                           static_cast<uint64_t>(shape.kv_heads)},
                  .stride = {dim, static_cast<uint64_t>(sequence.capacity) * dim},
                  .box = {width, static_cast<uint32_t>(key_rows), 1}};
    done = put_tensor_map(made.keys[i], box);
    box.data = sequence.values + layer;
    if (done) done = put_tensor_map(made.values[i], box);
  }
  return done;
}

template <class Form>
Status launch_long(cudaStream_t stream, const AttentionShape& shape, LongSequences sequences,
                   const bf16* q, int64_t q_stride, LongCall call, int multiprocessors) {
  constexpr int kTileRows = Form::kGroups * kLongRows;
  while (!sequences.empty()) {
    const LongSequences some =
        sequences.first(std::min<size_t>(sequences.size(), Form::kSequences));
    sequences = sequences.subspan(some.size());
    plan_long<Form>(call.plan, shape, some, multiprocessors);
    LongTensors<Form::kMaps> wide{};
    LongRest<Form> rest{};
    if (Status made =
            make_tensors(wide, shape, some, q, q_stride, kLongWide, kTileRows, Form::kKeys);
        !made)
      return made;
    if constexpr (Form::kRest > 0)
      if (Status made =
              make_tensors(rest, shape, some, q, q_stride, Form::kRest, kTileRows, Form::kKeys);
          !made)
        return made;
    launch_attend_long<Form>(stream, multiprocessors, wide, rest, call);
  }
  return Done{};
}

using Form64 = LongForm<64, 3, 128>;
using Form80 = LongForm<80, 2, 128>;
using Form128 = LongForm<128, 2, 128>;

}  // namespace

bool attention_long_is_compiled() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, attend_long<Form64>) == cudaSuccess &&
         attributes.binaryVersion == 90 && attributes.ptxVersion >= 90;
}

bool attention_long_takes(const AttentionShape& shape, LongSequences sequences, int64_t q_stride,
                          const AttentionWorkspace& workspace) {
  const int dim = shape.head_dim;
  return workspace.warpgroups() && (dim == 64 || dim == 72 || dim == 80 || dim == 128) &&
         q_stride % 8 == 0 &&
         std::all_of(sequences.begin(), sequences.end(), [](const AttentionSequence& sequence) {
           return sequence.key_bias == nullptr && sequence.q_count > 0 && sequence.key_count > 0;
         });
}

Status attention_long_cuda(cudaStream_t stream, const AttentionShape& shape,
                           LongSequences sequences, const bf16* q, int64_t q_stride, bf16* out,
                           int64_t out_stride, AttentionWorkspace& workspace) {
  const LongCall call = long_call(shape, out, out_stride, workspace);
  const auto with = [&](auto launch) {
    return launch(stream, shape, sequences, q, q_stride, call, workspace.multiprocessors());
  };
  if (shape.head_dim == 64) return with(launch_long<Form64>);
  if (shape.head_dim < 128) return with(launch_long<Form80>);
  return with(launch_long<Form128>);
}

}  // namespace fovea

#endif
