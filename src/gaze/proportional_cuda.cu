// SPDX-License-Identifier: Apache-2.0
// proportional: one block an image shares the tokens out to the regions, then one block a region
// splits its cells, and the last of an image's blocks puts all of them in order.
#include <algorithm>

#include "base/check.h"
#include "gaze/plan_space_cuda.h"
#include "gaze/regions.h"

namespace fovea {
namespace {

struct RegionShares {
  RegionLayout layout;
  int regions = 0;
  int budget_tokens = 0;
  int64_t total = 0;       // tokens to share
  bool most_holds = true;  // kRegionMaxTokens bounds a region
  double temperature = 0;
  double* weight = nullptr;  // [images][regions]
  int* tokens = nullptr;     // [images][regions]
  unsigned* done = nullptr;  // [images]: regions that have been split
  uint8_t* state = nullptr;  // [images][cells of all levels]

  __device__ int least(int region) const {
    const int64_t cells = layout.block(region).cells();
    return static_cast<int>(min(int64_t{min(kRegionMinTokens, budget_tokens)}, cells));
  }
  __device__ int most(int region) const {
    const int64_t cells = layout.block(region).cells();
    return static_cast<int>(most_holds ? min(int64_t{kRegionMaxTokens}, cells) : cells);
  }
};

// --- sharing, with the arithmetic of softmax_weights and share_tokens

__device__ double mean_of_region(const uint16_t* score, int cols, const CellBlock& region) {
  const int width = region.col_end - region.col_begin;
  const auto cells = static_cast<int>(region.cells());
  unsigned long long sum = 0;
  for (int i = BlockTeam::lane(); i < cells; i += 32)
    sum += score[(region.row_begin + i / width) * cols + region.col_begin + i % width];
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lane);
  return __ddiv_rn(static_cast<double>(sum), __dmul_rn(cells, UINT16_MAX));
}

__device__ double softmax_weight(double mean, double highest, double temperature) {
  double x = __ddiv_rn(__dsub_rn(mean, highest), temperature);
  if (x < -60) x = -60;
  const double y = __ddiv_rn(x, 4096);
  double power = 1;
  for (int i = 5; i >= 1; --i) power = __dadd_rn(1, __dmul_rn(__ddiv_rn(y, i), power));
  for (int i = 0; i < 12; ++i) power = __dmul_rn(power, power);
  return power;
}

// The tokens of a region when every claim above `share` is met.
__device__ int tokens_above(double weight, double share, int least, int most) {
  const double guess = __ddiv_rn(weight, share);
  int tokens = guess < most ? max(static_cast<int>(guess), least) : most;
  while (tokens > least && !(__ddiv_rn(weight, tokens) > share)) --tokens;
  while (tokens < most && __ddiv_rn(weight, tokens + 1) > share) ++tokens;
  return tokens;
}

// Meets all claims above a share that bisection finds, so that few remain to be met one by one. By
// one warp: each lane has every 32nd region.
__device__ int64_t share_most(const RegionShares& shares, const double* weight, int* tokens) {
  // From e^-60 over the tokens a region can have to 1, by their bits.
  int64_t none = __double_as_longlong(1.0);
  int64_t all = __double_as_longlong(1e-40);
  constexpr int kSteps = 24;
  for (int step = 0; step <= kSteps; ++step) {
    const double share = __longlong_as_double(step == kSteps ? none : (none + all) / 2);
    int mine = 0;
    for (int i = BlockTeam::lane(); i < shares.regions; i += 32) {
      tokens[i] = tokens_above(weight[i], share, shares.least(i), shares.most(i));
      mine += tokens[i];
    }
    const int64_t left = shares.total - sum_in_warp(mine);
    if (step == kSteps) return left;
    (left >= 0 ? none : all) = (none + all) / 2;
  }
  return 0;
}

__device__ void share_rest(const RegionShares& shares, const double* weight, int* tokens,
                           int64_t left) {
  for (; left > 0; --left) {
    Candidate mine = no_candidate();
    for (int i = BlockTeam::lane(); i < shares.regions; i += 32) {
      if (tokens[i] >= shares.most(i)) continue;
      const double share = __ddiv_rn(weight[i], tokens[i] + 1);
      const Candidate next{static_cast<uint64_t>(__double_as_longlong(share)), 0, i};
      if (next.beats(mine)) mine = next;
    }
    const int best = best_in_warp(mine).index;
    if (best == kNoCell) return;
    if (best % 32 == BlockTeam::lane()) ++tokens[best];
  }
}

__global__ void share_out(DeviceMaps maps, RegionShares shares) {
  __shared__ BlockParts parts;
  BlockTeam team(parts);
  const auto image = static_cast<size_t>(blockIdx.x);
  const uint16_t* score = maps.score + image * maps.grid.rows * maps.grid.cols;
  double* weight = shares.weight + image * shares.regions;
  int* tokens = shares.tokens + image * shares.regions;
  if (BlockTeam::thread() == 0) shares.done[image] = 0;
  Candidate highest = no_candidate();
  for (int i = BlockTeam::warp(); i < shares.regions; i += BlockTeam::warps()) {
    const double mean = mean_of_region(score, maps.grid.cols, shares.layout.block(i));
    if (BlockTeam::lane() == 0) weight[i] = mean;
    highest.rest = max(highest.rest, static_cast<uint64_t>(__double_as_longlong(mean)));
  }
  const double top = __longlong_as_double(static_cast<long long>(team.best(highest).rest));
  __syncthreads();
  for (int i = BlockTeam::thread(); i < shares.regions; i += BlockTeam::threads())
    weight[i] = softmax_weight(weight[i], top, shares.temperature);
  __syncthreads();
  if (BlockTeam::warp() > 0) return;
  share_rest(shares, weight, tokens, share_most(shares, weight, tokens));
}

// --- splitting

// Adds the most relevant level-0 cells of the region that are not read yet.
__device__ void read_best(BlockTeam& team, const CellView& view, const SplitMemory& memory,
                          const uint16_t* score, int64_t tokens) {
  for (; tokens > 0; --tokens) {
    Candidate mine = no_candidate();
    for (int i = BlockTeam::thread(); i < view.cells(0); i += BlockTeam::threads()) {
      if (memory.state[view.inner + i] == kLeaf) continue;
      const Cell cell = view.at(0, i);
      const Candidate next{score[cell.row * view.canvas.cols + cell.col], 0, i};
      if (next.beats(mine)) mine = next;
    }
    const int best = team.best(mine).index;
    if (best == kNoCell) break;
    // Who found it saw it last.
    if (best % BlockTeam::threads() == BlockTeam::thread()) memory.state[view.inner + best] = kLeaf;
  }
  __syncthreads();
}

__global__ void __launch_bounds__(1024, 1)
    split_regions(const __grid_constant__ CellView whole, DeviceMaps maps,
                  const __grid_constant__ DeviceDetail detail,
                  const __grid_constant__ RegionShares shares, SplitPlace place, DevicePlans out) {
  __shared__ BlockParts parts;
  __shared__ int view_memory[sizeof(CellView) / sizeof(int)];  // no constructor runs there
  __shared__ bool last;
  BlockTeam team(parts);
  auto& view = *static_cast<CellView*>(static_cast<void*>(view_memory));
  const auto region = static_cast<int>(blockIdx.x);
  const auto image = static_cast<size_t>(blockIdx.y);
  const uint16_t* score = maps.score + image * whole.cells(0);
  if (BlockTeam::thread() == 0)
    fill_view(whole.canvas, shares.layout.block(region), whole.top, view);
  __syncthreads();
  const SplitMemory memory = place.memory(view, static_cast<int>(image) * shares.regions + region);
  link_cells(view, memory);
  for (int level = 1; level <= view.top; ++level) {
    const uint64_t* lost = detail.lost[level] + image * whole.cells(level);
    for (int i = BlockTeam::thread(); i < view.cells(level); i += BlockTeam::threads())
      memory.rest[view.first[level] + i] =
          lost[whole.index(view.at(level, i)) - whole.first[level]];
  }
  __syncthreads();
  const int64_t left =
      split_cells(team, view, memory, shares.tokens[image * shares.regions + region], bin_of_bits);
  read_best(team, view, memory, score, left);

  uint8_t* state = shares.state + image * whole.count;
  for (int level = 0; level <= view.top; ++level)
    for (int i = BlockTeam::thread(); i < view.cells(level); i += BlockTeam::threads())
      state[whole.index(view.at(level, i))] = memory.state[view.first[level] + i];
  __threadfence();
  __syncthreads();
  if (BlockTeam::thread() == 0)
    last = atomicAdd(&shares.done[image], 1u) + 1 == static_cast<unsigned>(shares.regions);
  __syncthreads();
  if (!last) return;
  __threadfence();
  write_cells(
      team, whole, 0, whole.count, [&](int i) { return __ldcg(&state[i]) == kLeaf; }, 0,
      out.cells + image * out.room, out.room, out.counts + image);
}

RegionShares shares_of(const DeviceScene& scene) {
  RegionShares shares;
  shares.layout = region_layout(grid_at(scene.canvas, 0), scene.budget_tokens);
  FOVEA_CHECK(shares.layout.coarse.rows >= shares.layout.regions.rows &&
              shares.layout.coarse.cols >= shares.layout.regions.cols);
  shares.regions = static_cast<int>(shares.layout.regions.cells());
  shares.budget_tokens = scene.budget_tokens;
  shares.total = std::min<int64_t>(scene.budget_tokens, shares.layout.cells.cells());
  shares.temperature = scene.params.temperature;
  int64_t most = 0;
  for (int i = 0; i < shares.regions; ++i)
    most += std::min<int64_t>(kRegionMaxTokens, shares.layout.block(i).cells());
  shares.most_holds = most >= shares.total;
  return shares;
}

}  // namespace

void proportional_plans(const PlanJob& job, PlanSpace& space) {
  constexpr size_t kBinBytes = kBins * sizeof(int);
  const DeviceScene& scene = *job.scene;
  const CellView whole = view_of(scene.canvas, level_count(scene.canvas) - 1);
  RegionShares shares = shares_of(scene);
  const auto images = static_cast<size_t>(scene.images);
  const size_t blocks = images * static_cast<size_t>(shares.regions);
  shares.weight = space.take<double>(blocks);
  shares.tokens = space.take<int>(blocks);
  shares.done = space.take<unsigned>(images);
  shares.state = space.take<uint8_t>(images * static_cast<size_t>(whole.count));
  SplitPlace place;
  int most_cells = 0;
  for (int i = 0; i < shares.regions; ++i) {
    CellView view;
    fill_view(whole.canvas, shares.layout.block(i), whole.top, view);
    place.bytes = std::max(place.bytes, split_bytes(view));
    most_cells = std::max(most_cells, view.count);
  }
  place.global = space.take_unless_shared(blocks, place.bytes, kBinBytes);
  if (!space.works()) return;
  launch(share_out, {.grid = static_cast<unsigned>(images), .block = 256, .stream = job.stream},
         scene.relevance, shares);
  launch(split_regions,
         {.grid = dim3(static_cast<unsigned>(shares.regions), static_cast<unsigned>(images)),
          .block = threads_for(most_cells),
          .shared_bytes = shared_request(kBinBytes + (place.global == nullptr ? place.bytes : 0)),
          .stream = job.stream},
         whole, scene.relevance, scene.detail, shares, place, job.out);
}

}  // namespace fovea
