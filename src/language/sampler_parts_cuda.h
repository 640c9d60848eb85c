// SPDX-License-Identifier: Apache-2.0
// What the kernels that choose a token share.
//
// A block owns 1024 logits of a sequence, a thread four of them. What concerns all of them is put
// together by the block that ends last. Three numbers stand for a token:
//   score  its logit after the penalty
//   rank   score, and among equals the lower id, as an integer: the likelier token has the greater
//   mass   exp((score - best score) / temperature) in units of 2^-43, rounded
#pragma once

#include "device/cuda/bf16.h"
#include "device/cuda/kernel.h"
#include "language/sampler_cuda.h"

namespace fovea {

using TokenMass = unsigned long long;  // as CUDA's atomics want it
using TokenRank = unsigned long long;

inline constexpr int kChoiceThreads = 256;
inline constexpr int kChoiceWarps = kChoiceThreads / 32;
inline constexpr int kChoiceValues = 4 * kChoiceThreads;  // of a block
// Scores from the best down to where masses are 0, in equal steps.
inline constexpr int kScoreBins = 1024;

// A block's sums of masses are added up as halves of 22 bits, since shared memory adds words of 32
// bits by itself: 1024 times 2^22 is just not too much for either.
inline constexpr int kMassBits = 43;
inline constexpr int kMassHalf = 22;
inline constexpr int kMaxChoiceVocab = 1 << 20;  // of which the masses fit 64 bits
// exp(-31) is less than half a unit.
inline constexpr double kMassRange = 31;

inline constexpr float kMostFloat = 3.402823466e+38f;
inline constexpr uint32_t kNotFiniteKey = 0xFFFFFFFF;

// What some of the logits come to. `sum` is that of exp(logit - most).
struct LogitsPart {
  TokenRank best;
  float most;
  float sum;
  float least_score;  // of those above negative infinity
};

// What all of them come to.
struct LogitsSummary {
  double log_total;  // log of the sum of exp(logit)
  float best_score;
  float best_logprob;
  float bin_range;  // a score that is further below the best is in no bin
  float bins_per_score;
  int best;
  ChoiceFault fault;
};

// In which bins it is decided what top k and top p keep: k_bin, and one of p_first to p_last.
struct CutPlan {
  TokenMass all_mass;
  int k_bin;   // kScoreBins: top k excludes nothing that has a mass
  int k_left;  // that many of its tokens stay, and what ties with the last
  int p_first;
  int p_last;  // below p_first: top p excludes nothing
};

// The workspace, as kernels see it. Rows are sequences.
struct SamplerBuffers {
  LogitsPart* parts;       // [blocks]
  LogitsSummary* summary;  // one
  CutPlan* plan;           // one
  TokenMass* bin_mass;     // [kScoreBins], 0 between kernels
  TokenMass* mass_before;  // [kScoreBins], of likelier bins
  TokenMass* block_mass;   // [blocks]
  TokenRank* listed;       // [vocab], the tokens of the bins that decide
  TokenRank* cut;          // one: what ranks below it is out
  unsigned* bin_count;     // [kScoreBins], 0 between kernels
  unsigned* listed_count;  // one, 0 between choices
  unsigned* arrived;       // one, 0 between kernels
};

void enqueue_cut(cudaStream_t stream, const TokenChoiceJob& job, const SamplerBuffers& buffers);
void enqueue_draw(cudaStream_t stream, const TokenChoiceJob& job, const SamplerBuffers& buffers);

inline LaunchShape choice_shape(cudaStream_t stream, const TokenChoiceJob& job) {
  return {.grid = dim3(static_cast<unsigned>(ceil_div(job.vocab, kChoiceValues)),
                       static_cast<unsigned>(job.sequences)),
          .block = kChoiceThreads,
          .stream = stream,
          .overlaps = true};
}

// Four neighbours; negative infinity beyond the vocabulary.
struct FourLogits {
  float at[4];
  int first;  // id
};

__device__ inline FourLogits load_four(const TokenChoiceJob& job, int sequence, int block) {
  FourLogits four;
  four.first = block * kChoiceValues + static_cast<int>(threadIdx.x) * 4;
  const float* row = job.logits + int64_t{sequence} * job.vocab;
  if (job.vocab % 4 == 0 && four.first < job.vocab) {
    const float4 all = __ldcg(reinterpret_cast<const float4*>(row + four.first));
    four.at[0] = all.x;
    four.at[1] = all.y;
    four.at[2] = all.z;
    four.at[3] = all.w;
    return four;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    four.at[i] = four.first + i < job.vocab ? __ldcg(row + four.first + i) : -HUGE_VALF;
  return four;
}

// Rounded as Sampler rounds.
__device__ inline float penalised(float logit, float penalty) {
  return logit < 0 ? __fmul_rn(logit, penalty) : __fdiv_rn(logit, penalty);
}

// The scores of logits.
__device__ inline FourLogits penalised(const TokenChoiceJob& job, int sequence, FourLogits four) {
  const float penalty = job.states[sequence].repetition_penalty;
  if (penalty == 1 || job.context_bits == nullptr || four.first >= job.vocab) return four;
  const uint32_t* row = job.context_bits + int64_t{sequence} * context_words(job.vocab);
  const uint32_t bits = __ldcg(row + four.first / 32) >> four.first % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if ((bits >> i & 1) != 0) four.at[i] = penalised(four.at[i], penalty);
  return four;
}

__device__ inline TokenRank rank_of(uint32_t key, int id) {
  return TokenRank{key} << 32 | ~static_cast<uint32_t>(id);
}
// Both zeros are the same score.
__device__ inline TokenRank rank_of(float score, int id) {
  const uint32_t bits = score == 0 ? 0 : as_bits(score);
  return rank_of((bits >> 31) != 0 ? ~bits : bits | 0x80000000u, id);
}
__device__ inline int id_of(TokenRank rank) {
  return static_cast<int>(~static_cast<uint32_t>(rank));
}
__device__ inline float score_of(TokenRank rank) {
  const auto key = static_cast<uint32_t>(rank >> 32);
  return as_float((key >> 31) != 0 ? key & 0x7FFFFFFFu : ~key);
}

__device__ inline LogitsSummary load_summary(const SamplerBuffers& buffers, int sequence) {
  const LogitsSummary* from = buffers.summary + sequence;
  LogitsSummary summary;
  summary.log_total = __ldcg(&from->log_total);
  summary.best_score = __ldcg(&from->best_score);
  summary.best_logprob = __ldcg(&from->best_logprob);
  summary.bin_range = __ldcg(&from->bin_range);
  summary.bins_per_score = __ldcg(&from->bins_per_score);
  summary.best = __ldcg(&from->best);
  summary.fault = static_cast<ChoiceFault>(__ldcg(reinterpret_cast<const int*>(&from->fault)));
  return summary;
}

// The best is compared by itself, since a penalty below 1 can make it infinite.
__device__ inline double weight_of(float score, float best_score, double temperature) {
  if (score == best_score) return 1;
  return exp((double{score} - double{best_score}) / temperature);
}
__device__ inline TokenMass mass_of(double weight) {
  return __double2ull_rn(weight * static_cast<double>(1ull << kMassBits));
}

// A greater score has no greater bin. -1 where the score is in none.
__device__ inline int bin_of(float score, const LogitsSummary& summary) {
  const float below =
      score == summary.best_score ? 0 : fminf(summary.best_score - score, kMostFloat);
  if (below > summary.bin_range) return -1;
  return min(static_cast<int>(below * summary.bins_per_score), kScoreBins - 1);
}

__device__ inline bool has_top_k(const SamplerState& state, int vocab) {
  return state.top_k > 0 && state.top_k < vocab;
}
__device__ inline bool has_top_p(const SamplerState& state) { return state.top_p < 1; }

// The sum over the threads before this one, and over all.
__device__ inline TokenMass sum_before(TokenMass mine, TokenMass& all) {
  __shared__ TokenMass parts[kChoiceWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  TokenMass sum = mine;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const TokenMass other = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(step));
    if (lane >= step) sum += other;
  }
  __syncthreads();  // the call before has read its parts
  if (lane == 31) parts[warp] = sum;
  __syncthreads();
  TokenMass before = sum - mine;
  all = 0;
#pragma unroll
  for (int i = 0; i < kChoiceWarps; ++i) {
    if (i < warp) before += parts[i];
    all += parts[i];
  }
  return before;
}
__device__ inline TokenMass sum_of_all(TokenMass mine) {
  __shared__ TokenMass parts[kChoiceWarps];
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_xor_sync(kAllLanes, mine, lane);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  TokenMass all = 0;
#pragma unroll
  for (const TokenMass part : parts) all += part;
  return all;
}

// Whether the other blocks of the sequence have ended: then all they wrote can be read.
__device__ inline bool is_last_block(unsigned* arrived) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

// One store, since it may go over the bus.
__device__ inline void write_choice(const TokenChoiceJob& job, int sequence, int id, float logprob,
                                    float best_logprob, ChoiceFault fault) {
  *reinterpret_cast<uint4*>(job.out + sequence) =
      make_uint4(static_cast<uint32_t>(id), as_bits(logprob), as_bits(best_logprob),
                 static_cast<uint32_t>(fault));
  if (job.ids != nullptr) job.ids[sequence] = id;
  if (fault != ChoiceFault::kNone || job.context_bits == nullptr) return;
  // Atomic so that nothing is waited for; nobody else writes.
  atomicOr(job.context_bits + int64_t{sequence} * context_words(job.vocab) + id / 32,
           1u << id % 32);
}

}  // namespace fovea
