// SPDX-License-Identifier: Apache-2.0
// Attention of many rows to many keys of bf16 that lie in pages: the kernel of
// attention_long_kernel_cuda.h, which copies page after page.
#include "ops/attention/attention_long_cuda.h"

#if defined(FOVEA_EMULATE)

namespace fovea {

Status attention_long_pages_cuda(cudaStream_t /*stream*/, const AttentionShape& /*shape*/,
                                 std::span<const AttentionSequence> /*sequences*/,
                                 const LongPages& /*pages*/, const bf16* /*q*/,
                                 int64_t /*q_stride*/, bf16* /*out*/, int64_t /*out_stride*/,
                                 AttentionWorkspace& /*workspace*/) {
  return failed("attention of many rows is not emulated");
}

}  // namespace fovea

#else

#include "base/check.h"
#include "ops/attention/attention_long_launch_cuda.h"

namespace fovea {
namespace {

template <class Form>
Status launch_pages(cudaStream_t stream, const AttentionShape& shape, LongSequences sequences,
                    const LongPages& pages, const bf16* q, int64_t q_stride, LongCall call,
                    int multiprocessors) {
  LongTensors<1> wide{};
  const LongRest<Form> rest{};
  const auto dim = static_cast<uint64_t>(shape.head_dim);
  const auto rows = static_cast<uint64_t>(2 * shape.kv_heads) * static_cast<uint64_t>(pages.count);
  Status done = put_queries(wide.queries, shape, sequences, q, q_stride, kLongWide,
                            Form::kGroups * kLongRows);
  if (done)
    done = put_tensor_map(wide.keys[0], {.data = pages.pages,
                                         .size = {dim, kLongPageKeys, rows},
                                         .stride = {dim, dim * kLongPageKeys},
                                         .box = {kLongWide, kLongPageKeys, 1}});
  if (!done) return done;
  for (size_t first = 0; first < sequences.size(); first += kLongSequences) {
    const auto some =
        sequences.subspan(first, std::min<size_t>(kLongSequences, sequences.size() - first));
    std::copy_n(pages.tables.begin() + static_cast<std::ptrdiff_t>(first), some.size(), call.pages);
    plan_long<Form>(call.plan, shape, some, multiprocessors);
    launch_attend_long<Form>(stream, multiprocessors, wide, rest, call);
  }
  return Done{};
}

}  // namespace

Status attention_long_pages_cuda(cudaStream_t stream, const AttentionShape& shape,
                                 LongSequences sequences, const LongPages& pages, const bf16* q,
                                 int64_t q_stride, bf16* out, int64_t out_stride,
                                 AttentionWorkspace& workspace) {
  FOVEA_CHECK(shape.head_dim == 64 || shape.head_dim == 128);
  FOVEA_CHECK(pages.tables.size() == sequences.size());
  const auto launch = shape.head_dim == 64 ? launch_pages<LongForm<64, 3, 128, LongKeys::kPages> >
                                           : launch_pages<LongForm<128, 2, 128, LongKeys::kPages> >;
  return launch(stream, shape, sequences, pages, q, q_stride,
                long_call(shape, out, out_stride, workspace), workspace.multiprocessors());
}

}  // namespace fovea

#endif
