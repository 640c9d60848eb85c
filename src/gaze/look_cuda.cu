// SPDX-License-Identifier: Apache-2.0
// Looks, glance+look plans and top-k: level-0 cells by relevance. A block chooses for one image.
#include <algorithm>

#include "gaze/plan_space_cuda.h"

namespace fovea {
namespace {

constexpr int kNearby = 3;
constexpr int kNeighbours = 2;
constexpr uint16_t kOneNeighbour = 0x100;
constexpr uint16_t kChosen = 0x8000;

// Every so-many-th level-0 cell belongs to a thread. It alone knows their gains and keeps the best
// of them, so that a step is one comparison of all threads and at most seven cells to update.
struct OwnCells {
  const uint16_t* score;
  Grid grid;
  double neighbour_bonus;
  double crowding;
  uint64_t* key;    // the gain's bits + 1; 0 for what is chosen or was seen
  uint16_t* state;  // chosen cells nearby, 0x100 x those that share an edge, kChosen
  Candidate best;

  __device__ uint64_t key_of(int place) const {
    const int near = state[place] & 0xFF;
    const int neighbours = state[place] >> 8 & 0x7F;
    const double bonus = __dadd_rn(1, __dmul_rn(neighbour_bonus, min(neighbours, kNeighbours)));
    const double gain =
        __ddiv_rn(__dmul_rn(score[place], bonus), __dadd_rn(1, __dmul_rn(crowding, near)));
    return static_cast<uint64_t>(__double_as_longlong(gain)) + 1;
  }
  __device__ void find_best() {
    best = no_candidate();
    for (int i = BlockTeam::thread(); i < grid.rows * grid.cols; i += BlockTeam::threads()) {
      const Candidate next{key[i], 0, i};
      if (next.rest != 0 && next.beats(best)) best = next;
    }
  }
  // After the cell `steps` away was chosen. True where the best must be sought again.
  __device__ bool update(int place, int steps) {
    if (steps == 0) {
      state[place] |= kChosen;
      key[place] = 0;
      return place == best.index;
    }
    state[place] = static_cast<uint16_t>(state[place] + 1 + (steps == 1 ? kOneNeighbour : 0));
    if (key[place] == 0) return false;
    const Candidate next{key_of(place), 0, place};
    key[place] = next.rest;
    if (place == best.index && next.rest < best.rest) return true;
    if (place == best.index || next.beats(best)) best = next;
    return false;
  }
  __device__ void take(int chosen) {
    const int row = chosen / grid.cols;
    const int col = chosen % grid.cols;
    const int col_begin = max(col - kNearby, 0);
    const int cols = min(col + kNearby, grid.cols - 1) - col_begin + 1;
    bool seek = false;
    for (int r = max(row - kNearby, 0); r <= min(row + kNearby, grid.rows - 1); ++r) {
      const int first = r * grid.cols + col_begin;
      const int mine = (BlockTeam::thread() - first) & (BlockTeam::threads() - 1);
      if (mine < cols && update(first + mine, abs(r - row) + abs(col_begin + mine - col)))
        seek = true;
    }
    if (seek) find_best();
  }
};

struct LookPlace {
  unsigned char* global = nullptr;
  size_t bytes = 0;

  __device__ unsigned char* at() const {
    return global != nullptr ? global + blockIdx.x * bytes : dynamic_shared<unsigned char>();
  }
};

// Inhibition of return.
__device__ void close_seen(const DevicePlans& seen, Grid grid, uint64_t* key) {
  if (seen.cells == nullptr) return;
  const Cell* cells = seen.cells + static_cast<size_t>(blockIdx.x) * seen.room;
  for (int i = BlockTeam::thread(); i < seen.counts[blockIdx.x]; i += BlockTeam::threads())
    if (cells[i].level == 0) key[cells[i].row * grid.cols + cells[i].col] = 0;
}

__global__ void __launch_bounds__(1024, 1)
    take_look(const __grid_constant__ CellView view, DeviceMaps maps, LookPlace place,
              double neighbour_bonus, double crowding, int glance, int64_t tokens, DevicePlans seen,
              DevicePlans out) {
  __shared__ BlockParts parts;
  BlockTeam team(parts);
  const int cells = view.cells(0);
  auto* keys = reinterpret_cast<uint64_t*>(place.at());
  OwnCells own{maps.score + static_cast<size_t>(blockIdx.x) * cells,
               maps.grid,
               neighbour_bonus,
               crowding,
               keys,
               reinterpret_cast<uint16_t*>(keys + cells),
               no_candidate()};
  for (int i = BlockTeam::thread(); i < cells; i += BlockTeam::threads()) {
    own.state[i] = 0;
    own.key[i] = own.key_of(i);
  }
  __syncthreads();
  close_seen(seen, maps.grid, own.key);
  __syncthreads();
  own.find_best();
  for (int64_t taken = 0; taken < tokens; ++taken) {
    const Candidate best = team.best(own.best);
    if (best.index == kNoCell) break;
    own.take(best.index);
  }
  __syncthreads();
  Cell* to = out.cells + static_cast<size_t>(blockIdx.x) * out.room;
  const int before = glance < 0 ? 0 : view.cells(glance);
  for (int i = BlockTeam::thread(); i < before; i += BlockTeam::threads())
    to[i] = view.at(glance, i);
  const auto chosen = [&](int i) { return (own.state[i - view.inner] & kChosen) != 0; };
  write_cells(team, view, view.inner, view.count, chosen, before, to, out.room,
              out.counts + blockIdx.x);
}

// --- top-k

// The largest score that at least `tokens` cells reach, bit by bit from the highest.
__device__ int score_reached(BlockTeam& team, const uint16_t* score, int cells, int tokens) {
  int reached = 0;
  for (int bit = 0x8000; bit > 0; bit /= 2) {
    int mine = 0;
    for (int i = BlockTeam::thread(); i < cells; i += BlockTeam::threads())
      mine += score[i] >= (reached | bit) ? 1 : 0;
    if (team.sum(mine) >= tokens) reached |= bit;
  }
  return reached;
}

__global__ void __launch_bounds__(1024, 1)
    take_best(const __grid_constant__ CellView view, DeviceMaps maps, int tokens, DevicePlans out) {
  __shared__ BlockParts parts;
  __shared__ int equals_end;  // cells that reach the score alone are taken up to here
  BlockTeam team(parts);
  const int cells = view.count;
  const uint16_t* score = maps.score + static_cast<size_t>(blockIdx.x) * cells;
  const int reached = score_reached(team, score, cells, tokens);
  const int run = ceil_div(cells, BlockTeam::threads());
  const int begin = min(BlockTeam::thread() * run, cells);
  const int end = min(begin + run, cells);
  int above = 0;
  int equal = 0;
  for (int i = begin; i < end; ++i) {
    above += score[i] > reached ? 1 : 0;
    equal += score[i] == reached ? 1 : 0;
  }
  int total = 0;
  int left = tokens - team.sum(above) - team.sum_before(equal, total);
  if (left > 0 && left <= equal) {
    int last = begin;
    for (; left > 0; ++last) left -= score[last] == reached ? 1 : 0;
    equals_end = last;
  }
  __syncthreads();
  const auto chosen = [&](int i) {
    return score[i] > reached || (score[i] == reached && i < equals_end);
  };
  write_cells(team, view, 0, cells, chosen, 0,
              out.cells + static_cast<size_t>(blockIdx.x) * out.room, out.room,
              out.counts + blockIdx.x);
}

}  // namespace

void look_plans(const PlanJob& job, int glance, int64_t tokens, const DevicePlans& seen,
                PlanSpace& space) {
  const DeviceScene& scene = *job.scene;
  const CellView view = view_of(scene.canvas, std::max(glance, 0));
  const int cells = view.cells(0);
  LookPlace place;
  place.bytes = (static_cast<size_t>(cells) * (sizeof(uint64_t) + sizeof(uint16_t)) + 15) / 16 * 16;
  place.global = space.take_unless_shared(static_cast<size_t>(scene.images), place.bytes, 0);
  if (!space.works()) return;
  launch(take_look,
         {.grid = static_cast<unsigned>(scene.images),
          .block = threads_for(cells),
          .shared_bytes = shared_request(place.global == nullptr ? place.bytes : 0),
          .stream = job.stream},
         view, scene.relevance, place, scene.params.neighbour_bonus, scene.params.crowding, glance,
         tokens, seen, job.out);
}

void top_k_plans(const PlanJob& job, PlanSpace& space) {
  if (!space.works()) return;
  const DeviceScene& scene = *job.scene;
  const CellView view = view_of(scene.canvas, 0);
  launch(take_best,
         {.grid = static_cast<unsigned>(scene.images),
          .block = threads_for(view.count),
          .stream = job.stream},
         view, scene.relevance, std::min(scene.budget_tokens, view.count), job.out);
}

}  // namespace fovea
