// SPDX-License-Identifier: Apache-2.0
// cortical, thresholds and quadtree: what a cell is worth to each, and the split they share. A
// block makes the plan of one image. Every worth is the one that cortical.cc, thresholds.cc and
// quadtree.cc compute, bit by bit: whole numbers, or doubles in the same order without contraction.
#include <algorithm>
#include <cmath>

#include "gaze/plan_space_cuda.h"

namespace fovea {
namespace {

constexpr int kScores = 65'536;

__device__ void write_leaves(BlockTeam& team, const CellView& view, const SplitMemory& memory,
                             const DevicePlans& out) {
  const auto leaf = [&](int i) { return memory.state[i] == kLeaf; };
  write_cells(team, view, 0, view.count, leaf, 0,
              out.cells + static_cast<size_t>(blockIdx.x) * out.room, out.room,
              out.counts + blockIdx.x);
}

// --- quadtree

// The sum of relevance^2 under every inner cell, in `rest`.
__device__ void sum_squares(const CellView& view, const SplitMemory& memory,
                            const uint16_t* score) {
  for (int level = 1; level <= view.top; ++level) {
    const int end = view.first[level] + view.cells(level);
    for (int i = view.first[level] + BlockTeam::thread(); i < end; i += BlockTeam::threads()) {
      uint64_t sum = 0;
      for_children(memory, i, [&](int child) {
        const uint64_t of_child = level == 1 ? score[child - view.inner] : memory.rest[child];
        sum += level == 1 ? of_child * of_child : of_child;
      });
      memory.rest[i] = sum;
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(1024, 1)
    split_quadtree(const __grid_constant__ CellView view, DeviceMaps maps,
                   const __grid_constant__ DeviceDetail detail, SplitPlace place, int budget_tokens,
                   DevicePlans out) {
  __shared__ BlockParts parts;
  BlockTeam team(parts);
  const auto image = static_cast<size_t>(blockIdx.x);
  const SplitMemory memory = place.memory(view, static_cast<int>(blockIdx.x));
  link_cells(view, memory);
  sum_squares(view, memory, maps.score + image * view.cells(0));
  for (int level = 1; level <= view.top; ++level) {
    const uint64_t* lost = detail.lost[level] + image * view.cells(level);
    for (int i = BlockTeam::thread(); i < view.cells(level); i += BlockTeam::threads()) {
      const int index = view.first[level] + i;
      const uint64_t mean = memory.rest[index] / view.under(view.at(level, i));
      memory.top[index] = static_cast<uint32_t>(__umul64hi(mean, lost[i]));
      memory.rest[index] = mean * lost[i];
    }
  }
  __syncthreads();
  split_cells(team, view, memory, budget_tokens, bin_of_bits);
  write_leaves(team, view, memory, out);
}

// --- cortical

__device__ double gap_px(double place, int64_t begin, int64_t end) {
  const double before = __dsub_rn(static_cast<double>(begin), place);
  const double after = __dsub_rn(place, static_cast<double>(end));
  const double gap = before < after ? after : before;
  return gap < 0.0 ? 0.0 : gap;
}

__device__ double distance_px(const Cell& cell, const Point& point) {
  const int64_t side = int64_t{kCellPx} << cell.level;
  const double x = gap_px(point.x_px, cell.col * side, (cell.col + 1) * side);
  const double y = gap_px(point.y_px, cell.row * side, (cell.row + 1) * side);
  return __dsqrt_rn(__dadd_rn(__dmul_rn(x, x), __dmul_rn(y, y)));
}

// 64 bins for each power of 2 from 2^-16 on: cells are between 64 px over the canvas's diagonal and
// the canvas over e0.
__device__ int bin_of_size(uint32_t /*top*/, uint64_t bits) {
  const int64_t bin = static_cast<int64_t>(bits >> 46) - ((1023 - 16) << 6);
  return static_cast<int>(min(max(bin, int64_t{0}), int64_t{kBins - 1}));
}

__global__ void __launch_bounds__(1024, 1)
    split_cortex(const __grid_constant__ CellView view, DeviceFixations fixations, double e0_px,
                 SplitPlace place, int budget_tokens, DevicePlans out) {
  __shared__ BlockParts parts;
  BlockTeam team(parts);
  const auto image = static_cast<size_t>(blockIdx.x);
  const SplitMemory memory = place.memory(view, static_cast<int>(blockIdx.x));
  const Point* points = fixations.points + image * fixations.room;
  const int count = fixations.counts[image];
  link_cells(view, memory);
  for (int level = 1; level <= view.top; ++level) {
    for (int i = BlockTeam::thread(); i < view.cells(level); i += BlockTeam::threads()) {
      const Cell cell = view.at(level, i);
      double nearest_px = INFINITY;
      for (int f = 0; f < count; ++f) {
        const double px = distance_px(cell, points[f]);
        if (px < nearest_px) nearest_px = px;
      }
      // Not negative, so the order of its bits is its own.
      const double size = __ddiv_rn(kCellPx << level, __dadd_rn(nearest_px, e0_px));
      memory.rest[view.first[level] + i] = static_cast<uint64_t>(__double_as_longlong(size));
    }
  }
  __syncthreads();
  split_cells(team, view, memory, budget_tokens, bin_of_size);
  write_leaves(team, view, memory, out);
}

// --- thresholds

struct ThresholdCuts {
  int above[3];  // the least score above each threshold
};

// How many scores lie below one, without sorting them: they are counted by their upper 12 bits in
// shared memory, and one by one in the workspace, where only the sixteens that occur are cleared.
struct ScoreRanks {
  int* before;  // [kBins]: how many have lower upper bits
  int* equal;   // [kScores]
  int cells;

  __device__ void count(BlockTeam& team, const uint16_t* score) const {
    constexpr uint4 kZero = {0, 0, 0, 0};
    for (int i = BlockTeam::thread(); i < kBins; i += BlockTeam::threads()) before[i] = 0;
    for (int i = BlockTeam::thread(); i < cells; i += BlockTeam::threads()) {
      auto* sixteen = reinterpret_cast<uint4*>(equal + (score[i] & ~15));
      for (int part = 0; part < 4; ++part) sixteen[part] = kZero;
    }
    __syncthreads();
    for (int i = BlockTeam::thread(); i < cells; i += BlockTeam::threads()) {
      atomicAdd(&before[score[i] >> 4], 1);
      atomicAdd(&equal[score[i]], 1);
    }
    __syncthreads();
    const int run = kBins / BlockTeam::threads();
    int* mine = before + BlockTeam::thread() * run;
    int sum = 0;
    for (int i = 0; i < run; ++i) sum += mine[i];
    int total = 0;
    sum = team.sum_before(sum, total);
    for (int i = 0; i < run; ++i) {
      const int here = mine[i];
      mine[i] = sum;
      sum += here;
    }
    __syncthreads();
  }
  // For scores up to kScores.
  __device__ int below(int score) const {
    if (score >= kScores) return cells;
    const int bin = score >> 4;
    int rank = before[bin];
    const int next = bin + 1 < kBins ? before[bin + 1] : cells;
    if (next == rank) return rank;
    for (int i = score & ~15; i < score; ++i) rank += equal[i];
    return rank;
  }
};

// The highest score under every inner cell, in `top`.
__device__ void find_highest(const CellView& view, const SplitMemory& memory,
                             const uint16_t* score) {
  for (int level = 1; level <= view.top; ++level) {
    const int end = view.first[level] + view.cells(level);
    for (int i = view.first[level] + BlockTeam::thread(); i < end; i += BlockTeam::threads()) {
      uint32_t highest = 0;
      for_children(memory, i, [&](int child) {
        highest =
            max(highest, level == 1 ? uint32_t{score[child - view.inner]} : memory.top[child]);
      });
      memory.top[i] = highest;
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(1024, 1)
    split_thresholds(const __grid_constant__ CellView view, DeviceMaps maps,
                     const __grid_constant__ ThresholdCuts cuts, int* equal, SplitPlace place,
                     int budget_tokens, DevicePlans out) {
  __shared__ BlockParts parts;
  BlockTeam team(parts);
  const auto image = static_cast<size_t>(blockIdx.x);
  const SplitMemory memory = place.memory(view, static_cast<int>(blockIdx.x));
  const int64_t cells = view.cells(0);
  const uint16_t* score = maps.score + image * cells;
  const ScoreRanks ranks{memory.tokens_of_bin, equal + image * kScores, view.cells(0)};
  link_cells(view, memory);
  ranks.count(team, score);
  find_highest(view, memory, score);
  // Above their limit by -cells at the least; as whole numbers from 0 on.
  for (int level = 1; level <= view.top; ++level) {
    const int64_t limit =
        level <= 3 ? int64_t{ranks.below(cuts.above[level - 1])} : -(3 * cells * (level - 3) / 10);
    for (int i = BlockTeam::thread(); i < view.cells(level); i += BlockTeam::threads()) {
      const int index = view.first[level] + i;
      memory.rest[index] =
          static_cast<uint64_t>(ranks.below(static_cast<int>(memory.top[index])) - limit + cells);
      memory.top[index] = 0;
    }
  }
  __syncthreads();
  if (budget_tokens == 0) {
    const auto wanted = [=](uint32_t, uint64_t above) {
      return above >= static_cast<uint64_t>(cells) ? 1 : 0;
    };
    fill_bins(view, memory, wanted);
    split_down_to(view, memory, 1);
  } else {
    // The largest is 2 cells + 0.3 cells a level beyond the third.
    const uint64_t largest = static_cast<uint64_t>(2 * cells + 3 * cells * view.top / 10);
    const int shift = max(52 - __clzll(static_cast<long long>(largest)), 0);
    const auto bin_of = [=](uint32_t, uint64_t above) { return static_cast<int>(above >> shift); };
    split_cells(team, view, memory, budget_tokens, bin_of);
  }
  write_leaves(team, view, memory, out);
}

struct TreeLaunch {
  LaunchShape shape;
  SplitPlace place;
};

TreeLaunch tree_launch(const PlanJob& job, const CellView& view, unsigned threads,
                       PlanSpace& space) {
  constexpr size_t kBinBytes = kBins * sizeof(int);
  const auto images = static_cast<unsigned>(job.scene->images);
  TreeLaunch tree;
  tree.place.bytes = split_bytes(view);
  tree.place.global = space.take_unless_shared(images, tree.place.bytes, kBinBytes);
  const bool in_shared = space.shared_fits(tree.place.bytes + kBinBytes);
  tree.shape = {.grid = images,
                .block = threads,
                .shared_bytes = shared_request(kBinBytes + (in_shared ? tree.place.bytes : 0)),
                .stream = job.stream};
  return tree;
}

}  // namespace

void quadtree_plans(const PlanJob& job, PlanSpace& space) {
  const DeviceScene& scene = *job.scene;
  const int start = scene.params.quadtree_from_root
                        ? level_count(scene.canvas) - 1
                        : glance_level_of(scene.canvas, scene.budget_tokens);
  const CellView view = view_of(scene.canvas, start);
  const TreeLaunch tree = tree_launch(job, view, threads_for(view.count), space);
  if (space.works())
    launch(split_quadtree, tree.shape, view, scene.relevance, scene.detail, tree.place,
           scene.budget_tokens, job.out);
}

void cortical_plans(const PlanJob& job, PlanSpace& space) {
  const DeviceScene& scene = *job.scene;
  const CellView view = view_of(scene.canvas, level_count(scene.canvas) - 1);
  const double longer_px = std::max(scene.canvas.width_px, scene.canvas.height_px);
  const double e0_px = scene.params.cortical_e0 > 0
                           ? scene.params.cortical_e0 * longer_px
                           : longer_px / static_cast<double>(int64_t{1} << view.top);
  DeviceFixations fixations;
  const auto images = static_cast<size_t>(scene.images);
  fixations.room = most_fixations(scene);
  fixations.points = space.take<Point>(images * static_cast<size_t>(fixations.room));
  fixations.counts = space.take<int>(images);
  find_peaks(job, fixations, space);
  const TreeLaunch tree = tree_launch(job, view, threads_for(view.count), space);
  if (space.works())
    launch(split_cortex, tree.shape, view, fixations, e0_px, tree.place, scene.budget_tokens,
           job.out);
}

void thresholds_plans(const PlanJob& job, PlanSpace& space) {
  const DeviceScene& scene = *job.scene;
  const CellView view = view_of(scene.canvas, level_count(scene.canvas) - 1);
  ThresholdCuts cuts{};
  for (size_t i = 0; i < scene.params.thresholds.size(); ++i)
    cuts.above[i] = static_cast<int>(std::floor(scene.params.thresholds[i] * UINT16_MAX)) + 1;
  int* equal = space.take<int>(static_cast<size_t>(scene.images) * kScores);
  const TreeLaunch tree = tree_launch(job, view, threads_for(view.count), space);
  if (space.works())
    launch(split_thresholds, tree.shape, view, scene.relevance, cuts, equal, tree.place,
           scene.budget_tokens, job.out);
}

}  // namespace fovea
