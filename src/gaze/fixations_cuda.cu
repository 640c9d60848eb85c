// SPDX-License-Identifier: Apache-2.0
// The peaks of relevance of each image, as find_fixations has them: one block an image, the best of
// all cells for each fixation, then inhibition of return in whole numbers.
#include <algorithm>

#include "gaze/plan_space_cuda.h"

namespace fovea {
namespace {

constexpr int64_t kInhibitionParts = 8;

struct PeakPlace {
  unsigned char* global = nullptr;
  size_t bytes = 0;

  __device__ uint16_t* at() const {
    return reinterpret_cast<uint16_t*>(global != nullptr ? global + blockIdx.x * bytes
                                                         : dynamic_shared<unsigned char>());
  }
};

struct GivenFixations {
  const Point* points;
  const int* counts;
  int room;
};

__device__ double middle_px(int index, int size_px) {
  const int64_t begin_px = int64_t{index} * kCellPx;
  const int64_t end_px = min(begin_px + kCellPx, int64_t{size_px});
  return static_cast<double>(begin_px + end_px) / 2;
}

// The score of cell `i` after the eyes were at `peak`.
__device__ uint16_t inhibited(uint16_t score, int i, int peak, Grid grid) {
  const int64_t longer = max(grid.rows, grid.cols);
  const int64_t down = i / grid.cols - peak / grid.cols;
  const int64_t right = i % grid.cols - peak % grid.cols;
  const int64_t distance_squared =
      (down * down + right * right) * kInhibitionParts * kInhibitionParts;
  if (distance_squared >= longer * longer) return score;
  return static_cast<uint16_t>(score * distance_squared / (longer * longer));
}

__device__ bool is_flat(BlockTeam& team, const uint16_t* score, int cells) {
  Candidate highest = no_candidate();
  Candidate lowest = no_candidate();
  for (int i = BlockTeam::thread(); i < cells; i += BlockTeam::threads()) {
    highest.rest = max(highest.rest, uint64_t{score[i]});
    lowest.rest = max(lowest.rest, uint64_t{UINT16_MAX} - score[i]);
  }
  return team.best(highest).rest + team.best(lowest).rest == UINT16_MAX;
}

__device__ int find_in_image(BlockTeam& team, const uint16_t* score, Grid grid, Size canvas,
                             int most, uint16_t* left, Point* points) {
  const int cells = grid.rows * grid.cols;
  if (is_flat(team, score, cells)) {
    if (BlockTeam::thread() == 0) points[0] = {canvas.width_px / 2.0, canvas.height_px / 2.0};
    return 1;
  }
  for (int i = BlockTeam::thread(); i < cells; i += BlockTeam::threads()) left[i] = score[i];
  for (int found = 0; found < most; ++found) {
    Candidate mine = no_candidate();
    for (int i = BlockTeam::thread(); i < cells; i += BlockTeam::threads()) {
      const Candidate next{left[i], 0, i};
      if (next.beats(mine)) mine = next;
    }
    const Candidate best = team.best(mine);
    if (best.rest == 0) return found;
    if (BlockTeam::thread() == 0)
      points[found] = {middle_px(best.index % grid.cols, canvas.width_px),
                       middle_px(best.index / grid.cols, canvas.height_px)};
    for (int i = BlockTeam::thread(); i < cells; i += BlockTeam::threads())
      left[i] = inhibited(left[i], i, best.index, grid);
  }
  return most;
}

__global__ void __launch_bounds__(1024, 1)
    find_in_images(DeviceMaps maps, Size canvas, GivenFixations given, int most, PeakPlace place,
                   DeviceFixations out) {
  __shared__ BlockParts parts;
  BlockTeam team(parts);
  const auto image = static_cast<size_t>(blockIdx.x);
  Point* points = out.points + image * out.room;
  int count = given.points == nullptr ? 0 : given.counts[image];
  for (int i = BlockTeam::thread(); i < count; i += BlockTeam::threads())
    points[i] = given.points[image * given.room + i];
  if (count == 0)
    count = find_in_image(team, maps.score + image * maps.grid.rows * maps.grid.cols, maps.grid,
                          canvas, most, place.at(), points);
  if (BlockTeam::thread() == 0) out.counts[image] = count;
}

}  // namespace

int most_fixations(const DeviceScene& scene) {
  const int64_t cells = grid_at(scene.canvas, 0).cells();  // each takes one
  return std::max(static_cast<int>(std::min<int64_t>(scene.params.fixation_count, cells)),
                  scene.fixation_room);
}

void find_peaks(const PlanJob& job, const DeviceFixations& out, PlanSpace& space) {
  const DeviceScene& scene = *job.scene;
  const auto cells = static_cast<size_t>(grid_at(scene.canvas, 0).cells());
  PeakPlace place;
  place.bytes = (cells * sizeof(uint16_t) + 15) / 16 * 16;
  place.global = space.take_unless_shared(static_cast<size_t>(scene.images), place.bytes, 0);
  if (!space.works()) return;
  launch(find_in_images,
         {.grid = static_cast<unsigned>(scene.images),
          .block = threads_for(static_cast<int>(cells)),
          .shared_bytes = shared_request(place.global == nullptr ? place.bytes : 0),
          .stream = job.stream},
         scene.relevance, scene.canvas,
         GivenFixations{scene.fixations, scene.fixation_counts, scene.fixation_room},
         scene.params.fixation_count, place, out);
}

}  // namespace fovea
