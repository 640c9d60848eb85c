// SPDX-License-Identifier: Apache-2.0
// Which tokens top k and top p leave, as one rank below which all are out. Two kernels: the first
// counts and weighs tokens by bins of scores and finds the bins in which it is decided; the second
// lists the tokens of those bins, few of many, and searches them digit by digit of their rank.
#include "language/sampler_parts_cuda.h"

namespace fovea {
namespace {

constexpr int kBinsOfThread = kScoreBins / kChoiceThreads;
constexpr int kDigits = kChoiceThreads;  // a thread looks after each
constexpr int kDigitBits = 8;
constexpr int kListedNear = 2048;  // in shared memory

// Whether the sequence draws from a part of its tokens.
__device__ bool needs_cut(const TokenChoiceJob& job, const SamplerBuffers& buffers, int sequence) {
  const SamplerState& state = job.states[sequence];
  if (state.temperature == 0 || !(has_top_k(state, job.vocab) || has_top_p(state))) return false;
  return __ldcg(reinterpret_cast<const int*>(&buffers.summary[sequence].fault)) == 0;
}

// A token stays while the likelier ones have less than this together. The best stays even for 0.
__device__ TokenMass top_p_mass(double top_p, TokenMass all) {
  const auto mass = static_cast<TokenMass>(ceil(top_p * static_cast<double>(all)));
  return min(max(mass, TokenMass{1}), max(all, TokenMass{1}));
}

// Of a block's tokens.
struct BlockBins {
  unsigned count[kScoreBins];
  unsigned low[kScoreBins];  // of the masses, kMassHalf bits each
  unsigned high[kScoreBins];
};

__device__ void fill_bins(const TokenChoiceJob& job, const LogitsSummary& summary, int sequence,
                          BlockBins& bins) {
  const SamplerState& state = job.states[sequence];
  const bool by_mass = has_top_p(state);
  const FourLogits scores =
      penalised(job, sequence, load_four(job, sequence, static_cast<int>(blockIdx.x)));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int bin = bin_of(scores.at[i], summary);
    if (bin < 0 || scores.first + i >= job.vocab) continue;
    atomicAdd(&bins.count[bin], 1u);
    if (!by_mass) continue;
    const TokenMass mass = mass_of(weight_of(scores.at[i], summary.best_score, state.temperature));
    if (mass == 0) continue;
    constexpr TokenMass kLow = (1u << kMassHalf) - 1;
    atomicAdd(&bins.low[bin], static_cast<unsigned>(mass & kLow));
    atomicAdd(&bins.high[bin], static_cast<unsigned>(mass >> kMassHalf));
  }
}

// The bins of all blocks, four of them in each thread; they are left 0 for the next choice.
struct ThreadBins {
  TokenMass count[kBinsOfThread];
  TokenMass mass[kBinsOfThread];
};
__device__ ThreadBins take_bins(const SamplerBuffers& buffers, int sequence) {
  const int64_t first =
      int64_t{sequence} * kScoreBins + static_cast<int>(threadIdx.x) * kBinsOfThread;
  ThreadBins bins;
#pragma unroll
  for (int i = 0; i < kBinsOfThread; ++i) {
    bins.count[i] = __ldcg(buffers.bin_count + first + i);
    bins.mass[i] = __ldcg(buffers.bin_mass + first + i);
    buffers.bin_count[first + i] = 0;
    buffers.bin_mass[first + i] = 0;
  }
  return bins;
}
// Makes values the sums of those before them; returns the sum of all.
__device__ TokenMass accumulate(TokenMass (&values)[kBinsOfThread]) {
  TokenMass sum = 0;
#pragma unroll
  for (TokenMass& value : values) {
    const TokenMass next = sum + value;
    value = sum;
    sum = next;
  }
  TokenMass all = 0;
  const TokenMass before = sum_before(sum, all);
#pragma unroll
  for (TokenMass& value : values) value += before;
  return all;
}
// Calls `found` with the index of the thread's bin in which the sum reaches `needed`.
template <class Found>
__device__ void where_reached(const TokenMass (&before)[kBinsOfThread],
                              const TokenMass (&values)[kBinsOfThread], TokenMass needed,
                              Found found) {
#pragma unroll
  for (int i = 0; i < kBinsOfThread; ++i)
    if (before[i] < needed && needed <= before[i] + values[i]) found(i);
}

__device__ void plan_cut(const TokenChoiceJob& job, const SamplerBuffers& buffers, int sequence) {
  __shared__ CutPlan plan;
  __shared__ TokenMass mass_range[2];  // what top k leaves has at least and at most
  const SamplerState& state = job.states[sequence];
  const int first = static_cast<int>(threadIdx.x) * kBinsOfThread;
  const ThreadBins bins = take_bins(buffers, sequence);
  ThreadBins before = bins;
  const TokenMass all_mass = has_top_p(state) ? accumulate(before.mass) : 0;
  if (threadIdx.x == 0) {
    plan = {.all_mass = all_mass, .k_bin = kScoreBins, .k_left = 0, .p_first = 0, .p_last = -1};
    mass_range[0] = mass_range[1] = all_mass;
  }
  __syncthreads();
  if (has_top_k(state, job.vocab)) {
    const auto k = static_cast<TokenMass>(state.top_k);
    accumulate(before.count);
    where_reached(before.count, bins.count, k, [&](int i) {
      plan.k_bin = first + i;
      plan.k_left = static_cast<int>(k - before.count[i]);
      mass_range[0] = before.mass[i];
      mass_range[1] = before.mass[i] + bins.mass[i];
    });
    __syncthreads();
  }
  if (has_top_p(state)) {
    where_reached(before.mass, bins.mass, top_p_mass(state.top_p, mass_range[0]),
                  [&](int i) { plan.p_first = first + i; });
    where_reached(before.mass, bins.mass, top_p_mass(state.top_p, mass_range[1]),
                  [&](int i) { plan.p_last = first + i; });
    TokenMass* to = buffers.mass_before + int64_t{sequence} * kScoreBins + first;
#pragma unroll
    for (int i = 0; i < kBinsOfThread; ++i) to[i] = before.mass[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) buffers.plan[sequence] = plan;
}

// Masses are integers: whatever the order in which blocks add theirs, the sums are the same.
__global__ void __launch_bounds__(kChoiceThreads)
    weigh_bins(TokenChoiceJob job, SamplerBuffers buffers) {
  __shared__ BlockBins bins;
  let_next_start();
  wait_for_previous();
  const int sequence = static_cast<int>(blockIdx.y);
  if (!needs_cut(job, buffers, sequence)) return;
  const int thread = static_cast<int>(threadIdx.x);
  for (int bin = thread; bin < kScoreBins; bin += kChoiceThreads)
    bins.count[bin] = bins.low[bin] = bins.high[bin] = 0;
  __syncthreads();
  fill_bins(job, load_summary(buffers, sequence), sequence, bins);
  __syncthreads();
  const int64_t row = int64_t{sequence} * kScoreBins;
  for (int bin = thread; bin < kScoreBins; bin += kChoiceThreads) {
    if (bins.count[bin] == 0) continue;
    atomicAdd(buffers.bin_count + row + bin, bins.count[bin]);
    const TokenMass mass = (TokenMass{bins.high[bin]} << kMassHalf) + bins.low[bin];
    if (mass > 0) atomicAdd(buffers.bin_mass + row + bin, mass);
  }
  if (is_last_block(buffers.arrived + sequence)) plan_cut(job, buffers, sequence);
}

// The tokens of the bins that decide, in any order.
struct ListedTokens {
  const TokenRank* near;  // the first kListedNear
  const TokenRank* all;
  int count;

  __device__ TokenRank operator[](int i) const {
    return i < kListedNear ? near[i] : __ldcg(all + i);
  }
};

// What a search has found so far: the upper bits of a rank, and what is still needed below it.
struct RankSearch {
  TokenRank upper;
  TokenMass needed;
  bool only_one;  // token has these upper bits
};

struct DigitSums {
  TokenMass mass[kDigits];
  unsigned count[kDigits];
};

// Tokens with the upper bits found, by their next digit. A thread adds to shared memory when the
// digit changes, which it does seldom where many tokens have the same score.
template <class Measure>
__device__ void weigh_digits(const ListedTokens& listed, TokenRank upper, int shift,
                             Measure measure, DigitSums& sums) {
  TokenMass sum = 0;
  unsigned count = 0;
  int digit = 0;
  for (int i = static_cast<int>(threadIdx.x); i < listed.count; i += kChoiceThreads) {
    const TokenRank rank = listed[i];
    if ((rank ^ upper) >> shift >> kDigitBits != 0) continue;
    const TokenMass value = measure(rank);
    if (value == 0) continue;
    const int its_digit = static_cast<int>(rank >> shift & (kDigits - 1));
    if (its_digit != digit && count > 0) {
      atomicAdd(&sums.mass[digit], sum);
      atomicAdd(&sums.count[digit], count);
      sum = count = 0;
    }
    digit = its_digit;
    sum += value;
    ++count;
  }
  if (count == 0) return;
  atomicAdd(&sums.mass[digit], sum);
  atomicAdd(&sums.count[digit], count);
}

// One digit more of the search.
template <class Measure>
__device__ RankSearch search_digit(const ListedTokens& listed, const RankSearch& before, int shift,
                                   Measure measure) {
  __shared__ DigitSums sums;
  __shared__ RankSearch found;
  __syncthreads();
  sums.mass[threadIdx.x] = 0;
  sums.count[threadIdx.x] = 0;
  __syncthreads();
  weigh_digits(listed, before.upper, shift, measure, sums);
  __syncthreads();
  const int digit = kDigits - 1 - static_cast<int>(threadIdx.x);  // the greatest first
  const TokenMass mine = sums.mass[digit];
  TokenMass all = 0;
  const TokenMass above = sum_before(mine, all);
  if (above < before.needed && before.needed <= above + mine)
    found = {.upper = before.upper | static_cast<TokenRank>(digit) << shift,
             .needed = before.needed - above,
             .only_one = sums.count[digit] == 1};
  __syncthreads();
  return found;
}

// The rank of the token at which the sum of measure(rank), from the greatest rank down, reaches
// `needed`. Its bits below `last` may be 0 instead.
template <class Measure>
__device__ TokenRank rank_reaching(const ListedTokens& listed, TokenMass needed, int last,
                                   Measure measure) {
  __shared__ TokenRank only;
  RankSearch search{.upper = 0, .needed = needed, .only_one = false};
  int shift = 64;
  while (shift > last && !search.only_one) {
    shift -= kDigitBits;
    search = search_digit(listed, search, shift, measure);
  }
  if (!search.only_one) return search.upper;
  for (int i = static_cast<int>(threadIdx.x); i < listed.count; i += kChoiceThreads)
    if (listed[i] >> shift == search.upper >> shift && measure(listed[i]) > 0) only = listed[i];
  __syncthreads();
  return only;
}

// The bin of those that top p may end in, where it does end.
__device__ int find_p_bin(const TokenMass* mass_before, const CutPlan& plan, TokenMass needed) {
  __shared__ int p_bin;
  for (int bin = plan.p_first + static_cast<int>(threadIdx.x); bin <= plan.p_last;
       bin += kChoiceThreads)
    if (__ldcg(mass_before + bin) < needed &&
        (bin == plan.p_last || needed <= __ldcg(mass_before + bin + 1)))
      p_bin = bin;
  __syncthreads();
  return p_bin;
}

__device__ TokenRank find_cut(const TokenChoiceJob& job, const SamplerBuffers& buffers,
                              int sequence, const CutPlan& plan, const ListedTokens& listed) {
  const SamplerState& state = job.states[sequence];
  const LogitsSummary summary = load_summary(buffers, sequence);
  const auto mass = [&](TokenRank rank) {
    return mass_of(weight_of(score_of(rank), summary.best_score, state.temperature));
  };
  TokenRank cut = 0;
  const bool has_k = plan.k_bin < kScoreBins;
  if (has_k)  // what ties with it stays: its id is cut off, unless nothing ties
    cut = rank_reaching(listed, static_cast<TokenMass>(plan.k_left), 32, [&](TokenRank rank) {
      return TokenMass{bin_of(score_of(rank), summary) == plan.k_bin};
    });
  if (plan.p_last < plan.p_first) return cut;
  const TokenMass* mass_before = buffers.mass_before + int64_t{sequence} * kScoreBins;
  TokenMass all = plan.all_mass;
  if (has_k) {
    TokenMass mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < listed.count; i += kChoiceThreads)
      if (listed[i] >= cut && bin_of(score_of(listed[i]), summary) == plan.k_bin)
        mine += mass(listed[i]);
    all = __ldcg(mass_before + plan.k_bin) + sum_of_all(mine);
  }
  const TokenMass needed = top_p_mass(state.top_p, all);
  const int p_bin = find_p_bin(mass_before, plan, needed);
  return rank_reaching(listed, needed - __ldcg(mass_before + p_bin), 0, [&](TokenRank rank) {
    return bin_of(score_of(rank), summary) == p_bin ? mass(rank) : 0;
  });
}

__device__ CutPlan load_plan(const CutPlan* from) {
  return {.all_mass = __ldcg(&from->all_mass),
          .k_bin = __ldcg(&from->k_bin),
          .k_left = __ldcg(&from->k_left),
          .p_first = __ldcg(&from->p_first),
          .p_last = __ldcg(&from->p_last)};
}

// Adds this block's tokens of the bins that decide to the list.
__device__ void list_tokens(const TokenChoiceJob& job, const SamplerBuffers& buffers, int sequence,
                            const CutPlan& plan) {
  __shared__ unsigned count;
  __shared__ unsigned begin;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const LogitsSummary summary = load_summary(buffers, sequence);
  const FourLogits scores =
      penalised(job, sequence, load_four(job, sequence, static_cast<int>(blockIdx.x)));
  int place[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int bin = scores.first + i < job.vocab ? bin_of(scores.at[i], summary) : -1;
    const bool decides =
        bin >= 0 && (bin == plan.k_bin || (bin >= plan.p_first && bin <= plan.p_last));
    place[i] = decides ? static_cast<int>(atomicAdd(&count, 1u)) : -1;
  }
  __syncthreads();
  if (count == 0) return;
  if (threadIdx.x == 0) begin = atomicAdd(buffers.listed_count + sequence, count);
  __syncthreads();
  TokenRank* list = buffers.listed + int64_t{sequence} * job.vocab + begin;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (place[i] >= 0) list[place[i]] = rank_of(scores.at[i], scores.first + i);
}

__global__ void __launch_bounds__(kChoiceThreads)
    cut_tokens(TokenChoiceJob job, SamplerBuffers buffers) {
  __shared__ TokenRank near[kListedNear];
  let_next_start();
  wait_for_previous();
  const int sequence = static_cast<int>(blockIdx.y);
  if (!needs_cut(job, buffers, sequence)) return;
  const CutPlan plan = load_plan(buffers.plan + sequence);
  list_tokens(job, buffers, sequence, plan);
  if (!is_last_block(buffers.arrived + sequence)) return;
  const ListedTokens listed{.near = near,
                            .all = buffers.listed + int64_t{sequence} * job.vocab,
                            .count = static_cast<int>(__ldcg(buffers.listed_count + sequence))};
  for (int i = static_cast<int>(threadIdx.x); i < min(listed.count, kListedNear);
       i += kChoiceThreads)
    near[i] = __ldcg(listed.all + i);
  __syncthreads();
  const TokenRank cut = find_cut(job, buffers, sequence, plan, listed);
  if (threadIdx.x != 0) return;
  buffers.cut[sequence] = cut;
  buffers.listed_count[sequence] = 0;
}

}  // namespace

void enqueue_cut(cudaStream_t stream, const TokenChoiceJob& job, const SamplerBuffers& buffers) {
  launch(weigh_bins, choice_shape(stream, job), job, buffers);
  launch(cut_tokens, choice_shape(stream, job), job, buffers);
}

}  // namespace fovea
