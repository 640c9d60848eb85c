// SPDX-License-Identifier: Apache-2.0
// Draws a token: u times the mass of what is left lies in the mass of one token, by id. The blocks
// weigh their tokens; the last one finds the block in which that is, and the token in it.
#include "language/sampler_parts_cuda.h"

namespace fovea {
namespace {

// splitmix64, as Sampler draws.
__device__ uint64_t next_random(uint64_t& state) {
  state += kRandomStep;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

struct FourMasses {
  TokenMass at[4];

  __device__ TokenMass sum() const { return at[0] + at[1] + at[2] + at[3]; }
};

// 0 where a filter excludes the token.
__device__ FourMasses masses_of(const TokenChoiceJob& job, const LogitsSummary& summary,
                                TokenRank cut, int sequence, int block) {
  const SamplerState& state = job.states[sequence];
  const FourLogits scores = penalised(job, sequence, load_four(job, sequence, block));
  FourMasses masses;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    masses.at[i] = 0;
    const int id = scores.first + i;
    if (id >= job.vocab || rank_of(scores.at[i], id) < cut) continue;
    const double weight = weight_of(scores.at[i], summary.best_score, state.temperature);
    if (weight >= state.min_p) masses.at[i] = mass_of(weight);
  }
  return masses;
}

struct DrawnBlock {
  TokenMass left;  // of the drawn mass, from the block's beginning on
  int index;
};

// Each thread looks at a run of blocks. The random number is drawn here.
__device__ DrawnBlock draw_block(const TokenChoiceJob& job, const SamplerBuffers& buffers,
                                 int sequence) {
  __shared__ DrawnBlock drawn_block;
  const int blocks = static_cast<int>(gridDim.x);
  const int run = ceil_div(blocks, kChoiceThreads);
  const int begin = min(static_cast<int>(threadIdx.x) * run, blocks);
  const int end = min(begin + run, blocks);
  const TokenMass* block_mass = buffers.block_mass + int64_t{sequence} * blocks;
  TokenMass mine = 0;
  for (int i = begin; i < end; ++i) mine += __ldcg(block_mass + i);
  TokenMass all = 0;
  TokenMass before = sum_before(mine, all);
  uint64_t random = __ldcg(&job.states[sequence].random);
  // u in [0, 1) has 53 bits; the product is rounded down.
  const TokenMass drawn = __umul64hi(next_random(random) >> 11 << 11, all);
  for (int i = begin; i < end; ++i) {
    const TokenMass mass = __ldcg(block_mass + i);
    if (drawn >= before && drawn - before < mass)
      drawn_block = {.left = drawn - before, .index = i};
    before += mass;
  }
  __syncthreads();
  if (threadIdx.x == 0) job.states[sequence].random = random;
  return drawn_block;
}

__device__ int draw_token(const DrawnBlock& block, const FourMasses& masses) {
  __shared__ int id;
  TokenMass all = 0;
  TokenMass before = sum_before(masses.sum(), all);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (block.left >= before && block.left - before < masses.at[i])
      id = block.index * kChoiceValues + static_cast<int>(threadIdx.x) * 4 + i;
    before += masses.at[i];
  }
  __syncthreads();
  return id;
}

__global__ void __launch_bounds__(kChoiceThreads)
    draw_tokens(TokenChoiceJob job, SamplerBuffers buffers) {
  let_next_start();
  wait_for_previous();
  const int sequence = static_cast<int>(blockIdx.y);
  const SamplerState& state = job.states[sequence];
  const LogitsSummary summary = load_summary(buffers, sequence);
  if (state.temperature == 0 || summary.fault != ChoiceFault::kNone) return;
  const bool has_cut = has_top_k(state, job.vocab) || has_top_p(state);
  const TokenRank cut = has_cut ? __ldcg(buffers.cut + sequence) : 0;
  const TokenMass mass =
      sum_of_all(masses_of(job, summary, cut, sequence, static_cast<int>(blockIdx.x)).sum());
  if (threadIdx.x == 0) buffers.block_mass[int64_t{sequence} * gridDim.x + blockIdx.x] = mass;
  if (!is_last_block(buffers.arrived + sequence)) return;
  const DrawnBlock block = draw_block(job, buffers, sequence);
  const int id = draw_token(block, masses_of(job, summary, cut, sequence, block.index));
  if (threadIdx.x != 0) return;
  const float logit = __ldcg(job.logits + int64_t{sequence} * job.vocab + id);
  write_choice(job, sequence, id, static_cast<float>(double{logit} - summary.log_total),
               summary.best_logprob, ChoiceFault::kNone);
}

}  // namespace

void enqueue_draw(cudaStream_t stream, const TokenChoiceJob& job, const SamplerBuffers& buffers) {
  launch(draw_tokens, choice_shape(stream, job), job, buffers);
}

}  // namespace fovea
