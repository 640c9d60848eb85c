// SPDX-License-Identifier: Apache-2.0
// The first kernel of a choice, and the only one where all are greedy: the best token, the sum that
// log-probabilities need, and whether the logits are sound.
#include "language/sampler_cuda.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "language/sampler_parts_cuda.h"

namespace fovea {
namespace {

// Over the block; all threads get it.
template <bool kGreedy>
__device__ LogitsPart over_block(const LogitsPart& mine) {
  __shared__ LogitsPart parts[kChoiceWarps];
  __shared__ float sums[kChoiceWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  LogitsPart all = mine;
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) {
    all.best = max(all.best, __shfl_xor_sync(kAllLanes, all.best, lane));
    all.most = fmaxf(all.most, __shfl_xor_sync(kAllLanes, all.most, lane));
    if (!kGreedy)
      all.least_score = fminf(all.least_score, __shfl_xor_sync(kAllLanes, all.least_score, lane));
  }
  __syncthreads();  // the call before has read its parts
  if (threadIdx.x % 32 == 0) parts[warp] = all;
  __syncthreads();
#pragma unroll
  for (const LogitsPart& part : parts) {
    all.best = max(all.best, part.best);
    all.most = fmaxf(all.most, part.most);
    if (!kGreedy) all.least_score = fminf(all.least_score, part.least_score);
  }
  // Where there is nothing but negative infinity the difference is no number.
  const float sum = mine.sum > 0 ? mine.sum * expf(mine.most - all.most) : 0.0f;
  const float warps_sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) sums[warp] = warps_sum;
  __syncthreads();
  all.sum = 0;
#pragma unroll
  for (const float part : sums) all.sum += part;
  return all;
}

__device__ LogitsPart nothing() {
  return {.best = 0, .most = -HUGE_VALF, .sum = 0, .least_score = HUGE_VALF};
}

// What is no number, and positive infinity, are better than all else, so that they are found.
__device__ LogitsPart part_of(const FourLogits& logits, const FourLogits& scores) {
  LogitsPart part = nothing();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int id = logits.first + i;
    const bool finite = logits.at[i] <= kMostFloat;
    part.best = max(part.best, finite ? rank_of(scores.at[i], id) : rank_of(kNotFiniteKey, id));
    part.most = fmaxf(part.most, logits.at[i]);
    if (scores.at[i] >= -kMostFloat) part.least_score = fminf(part.least_score, scores.at[i]);
  }
  if (part.most == -HUGE_VALF) return part;
#pragma unroll
  for (const float logit : logits.at) part.sum += expf(logit - part.most);
  return part;
}

__device__ LogitsPart load_part(const LogitsPart* from) {
  return {.best = __ldcg(&from->best),
          .most = __ldcg(&from->most),
          .sum = __ldcg(&from->sum),
          .least_score = __ldcg(&from->least_score)};
}
// One after the other, for a vocabulary of more than 256 blocks.
__device__ LogitsPart together(const LogitsPart& a, const LogitsPart& b) {
  LogitsPart both = nothing();
  both.best = max(a.best, b.best);
  both.most = fmaxf(a.most, b.most);
  both.least_score = fminf(a.least_score, b.least_score);
  if (a.sum > 0) both.sum += a.sum * expf(a.most - both.most);
  if (b.sum > 0) both.sum += b.sum * expf(b.most - both.most);
  return both;
}

__device__ LogitsSummary summary_of(const LogitsPart& all, double temperature) {
  LogitsSummary summary{};
  if (all.best >> 32 == kNotFiniteKey)
    summary.fault = ChoiceFault::kNotFinite;
  else if (all.most == -HUGE_VALF)
    summary.fault = ChoiceFault::kAllExcluded;
  summary.best = id_of(all.best);
  summary.best_score = score_of(all.best);
  summary.log_total = double{all.most} + double{logf(all.sum)};
  summary.best_logprob = static_cast<float>(double{all.most} - summary.log_total);
  if (temperature == 0) return summary;
  const double range =
      fmin(kMassRange * temperature, double{summary.best_score} - double{all.least_score});
  summary.bin_range = fmaxf(0, static_cast<float>(fmin(range, double{kMostFloat})));
  summary.bins_per_score = fminf(static_cast<float>(kScoreBins) / summary.bin_range, kMostFloat);
  return summary;
}

__device__ void finish_best(const TokenChoiceJob& job, const SamplerBuffers& buffers, int sequence,
                            const LogitsPart& all) {
  const SamplerState& state = job.states[sequence];
  const LogitsSummary summary = summary_of(all, state.temperature);
  const float* row = job.logits + int64_t{sequence} * job.vocab;
  if (summary.fault == ChoiceFault::kAllExcluded)
    write_choice(job, sequence, 0, 0, 0, summary.fault);
  else if (summary.fault == ChoiceFault::kNotFinite)
    write_choice(job, sequence, summary.best, __ldcg(row + summary.best), 0, summary.fault);
  if (state.temperature > 0) {
    buffers.summary[sequence] = summary;
    return;
  }
  if (summary.fault != ChoiceFault::kNone) return;
  // Without a penalty the score is the logit, and nothing is waited for.
  const float logit =
      state.repetition_penalty == 1 ? summary.best_score : __ldcg(row + summary.best);
  write_choice(job, sequence, summary.best, static_cast<float>(double{logit} - summary.log_total),
               summary.best_logprob, summary.fault);
}

// The most and the sum of exp(logit - most), in f32, by threads, warps and blocks in a fixed order.
template <bool kGreedy>
__global__ void __launch_bounds__(kChoiceThreads)
    find_best(TokenChoiceJob job, SamplerBuffers buffers) {
  let_next_start();
  wait_for_previous();
  const int sequence = static_cast<int>(blockIdx.y);
  const int blocks = static_cast<int>(gridDim.x);
  const FourLogits logits = load_four(job, sequence, static_cast<int>(blockIdx.x));
  LogitsPart part = over_block<kGreedy>(part_of(logits, penalised(job, sequence, logits)));
  LogitsPart* parts = buffers.parts + int64_t{sequence} * blocks;
  if (threadIdx.x == 0) parts[blockIdx.x] = part;
  if (!is_last_block(buffers.arrived + sequence)) return;
  part = nothing();
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kChoiceThreads)
    part = together(part, load_part(parts + i));
  part = over_block<kGreedy>(part);
  if (threadIdx.x == 0) finish_best(job, buffers, sequence, part);
}

// Cuts the workspace into its parts, largest alignment first.
struct Cutter {
  unsigned char* memory = nullptr;
  size_t bytes = 0;

  template <class T>
  void take(T*& part, size_t count) {
    part = memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + bytes);
    bytes += (count * sizeof(T) + 15) / 16 * 16;
  }
};
size_t cut_workspace(unsigned char* memory, int sequences, int vocab, SamplerBuffers& buffers) {
  Cutter cutter{.memory = memory};
  const auto rows = static_cast<size_t>(sequences);
  const auto blocks = static_cast<size_t>(ceil_div(vocab, kChoiceValues));
  cutter.take(buffers.bin_mass, rows * kScoreBins);
  cutter.take(buffers.bin_count, rows * kScoreBins);
  cutter.take(buffers.listed_count, rows);
  cutter.take(buffers.arrived, rows);
  cutter.take(buffers.parts, rows * blocks);
  cutter.take(buffers.summary, rows);
  cutter.take(buffers.plan, rows);
  cutter.take(buffers.mass_before, rows * kScoreBins);
  cutter.take(buffers.block_mass, rows * blocks);
  cutter.take(buffers.cut, rows);
  cutter.take(buffers.listed, rows * static_cast<size_t>(vocab));
  return cutter.bytes;
}

}  // namespace

SamplerState make_sampler_state(const SamplingOptions& options, int64_t drawn) {
  const uint64_t draws = options.temperature > 0 ? static_cast<uint64_t>(drawn) : 0;
  // Not 0, by which 0 would be divided.
  const auto penalty = static_cast<float>(std::clamp<double>(
      options.repetition_penalty, std::numeric_limits<float>::min(), kMostFloat));
  return {.temperature = options.temperature,
          .top_p = options.top_p,
          .min_p = options.min_p,
          .random = options.seed + draws * kRandomStep,
          .top_k = options.top_k,
          .repetition_penalty = penalty};
}

void add_context_bits(std::span<uint32_t> bits, std::span<const int> ids) {
  for (const int id : ids) {
    FOVEA_CHECK(id >= 0 && static_cast<size_t>(id / 32) < bits.size());
    bits[static_cast<size_t>(id / 32)] |= 1u << id % 32;
  }
}

Status SamplerWorkspace::open(cudaStream_t stream, int sequences, int vocab) {
  FOVEA_CHECK(sequences > 0 && vocab > 0 && vocab <= kMaxChoiceVocab);
  SamplerBuffers buffers{};
  if (auto made = memory_.allocate(cut_workspace(nullptr, sequences, vocab, buffers)); !made)
    return made;
  sequences_ = sequences;
  vocab_ = vocab;
  if (const cudaError_t error = cudaMemsetAsync(memory_.data(), 0, memory_.bytes(), stream);
      error != cudaSuccess)
    return cuda_error("a sampler's memory", error);
  return Done{};
}

void choose_tokens_cuda(cudaStream_t stream, const TokenChoiceJob& job,
                        SamplerWorkspace& workspace) {
  FOVEA_CHECK(job.sequences <= workspace.sequences_ && job.vocab == workspace.vocab_);
  FOVEA_CHECK(reinterpret_cast<uintptr_t>(job.logits) % 16 == 0);
  FOVEA_CHECK(reinterpret_cast<uintptr_t>(job.out) % 16 == 0);
  if (job.sequences == 0) return;
  // As for all the sequences there is room for, so that the counters stay where they are.
  SamplerBuffers buffers{};
  cut_workspace(workspace.memory_.data(), workspace.sequences_, workspace.vocab_, buffers);
  const LaunchShape shape = choice_shape(stream, job);
  if (job.greedy_only) return launch(find_best<true>, shape, job, buffers);
  launch(find_best<false>, shape, job, buffers);
  enqueue_cut(stream, job, buffers);
  enqueue_draw(stream, job, buffers);
}

}  // namespace fovea
