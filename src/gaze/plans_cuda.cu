// SPDX-License-Identifier: Apache-2.0
#include "gaze/plans_cuda.h"

#include <algorithm>

#include "base/check.h"
#include "gaze/plan_space_cuda.h"

namespace fovea {
namespace {

__global__ void write_level(const __grid_constant__ CellView view, DevicePlans out) {
  const auto image = blockIdx.y;
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int cells = view.cells(view.top);
  if (at < cells) out.cells[static_cast<size_t>(image) * out.room + at] = view.at(view.top, at);
  if (at == 0) out.counts[image] = cells;
}

PlanJob job_of(cudaStream_t stream, const DeviceScene& scene, const DevicePlans& out) {
  FOVEA_CHECK(out.images == scene.images && out.canvas == scene.canvas);
  return {stream, &scene, out};
}

void make(MakerKind maker, const PlanJob& job, PlanSpace& space) {
  const DeviceScene& scene = *job.scene;
  switch (maker) {
    case MakerKind::kUniform: {
      int level = 0;
      while (scene.budget_tokens > 0 && grid_at(scene.canvas, level).cells() > scene.budget_tokens)
        ++level;
      return uniform_plans(job, level, space);
    }
    case MakerKind::kCortical:
      return cortical_plans(job, space);
    case MakerKind::kThresholds:
      return thresholds_plans(job, space);
    case MakerKind::kProportional:
      return proportional_plans(job, space);
    case MakerKind::kQuadtree:
      return quadtree_plans(job, space);
    case MakerKind::kTopK:
      return top_k_plans(job, space);
    case MakerKind::kGlanceLook: {
      const int level = glance_level_of(scene.canvas, scene.budget_tokens);
      if (level == 0) return uniform_plans(job, level, space);
      return look_plans(job, level, scene.budget_tokens - grid_at(scene.canvas, level).cells(), {},
                        space);
    }
  }
}

// Works in the workspace, after it was asked whether that is large enough.
template <class Work>
void work_in(const PlanWorkspace& workspace, const Work& work) {
  PlanSpace measured(workspace.shared_limit_bytes);
  work(measured);
  FOVEA_CHECK(measured.used() <= workspace.bytes);
  PlanSpace space(workspace);
  work(space);
}

}  // namespace

void uniform_plans(const PlanJob& job, int level, PlanSpace& space) {
  if (!space.works()) return;
  constexpr int kThreads = 256;
  const CellView view = view_of(job.scene->canvas, level);
  FOVEA_CHECK(job.out.room >= view.cells(level));
  launch(write_level,
         {.grid = dim3(static_cast<unsigned>(ceil_div(view.cells(level), kThreads)),
                       static_cast<unsigned>(job.scene->images)),
          .block = kThreads,
          .stream = job.stream},
         view, job.out);
}

int plan_room(Size canvas, int budget_tokens) {
  // A glance of level 1 or above and all cells of level 0 are the most; a glance is at most a
  // third.
  const int64_t cells = grid_at(canvas, 0).cells();
  const int64_t most = level_count(canvas) == 1 ? cells : cells + grid_at(canvas, 1).cells();
  return static_cast<int>(budget_tokens == 0 ? cells : std::min<int64_t>(budget_tokens, most));
}

size_t shared_limit_of_device(int device) {
  int bytes = 0;
  if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
      cudaSuccess)
    return PlanWorkspace().shared_limit_bytes;
  return static_cast<size_t>(bytes);
}

size_t plan_workspace_bytes(const DeviceScene& scene, size_t shared_limit_bytes) {
  size_t most = 0;
  const PlanJob job{nullptr, &scene, {}};
  for (size_t kind = 0; kind < std::size(kMakerNames); ++kind) {
    PlanSpace space(shared_limit_bytes);
    make(static_cast<MakerKind>(kind), job, space);
    most = std::max(most, space.used());
  }
  PlanSpace look(shared_limit_bytes);
  look_plans(job, -1, 0, {}, look);
  PlanSpace peaks(shared_limit_bytes);
  find_peaks(job, {}, peaks);
  return std::max({most, look.used(), peaks.used()});
}

void make_plans_cuda(cudaStream_t stream, MakerKind maker, const DeviceScene& scene,
                     const PlanWorkspace& workspace, const DevicePlans& out) {
  const PlanJob job = job_of(stream, scene, out);
  FOVEA_CHECK(out.room >= plan_room(scene.canvas, scene.budget_tokens));
  work_in(workspace, [&](PlanSpace& space) { make(maker, job, space); });
}

void make_glances_cuda(cudaStream_t stream, const DeviceScene& scene, const DevicePlans& out) {
  const PlanJob job = job_of(stream, scene, out);
  const int level = glance_level_of(scene.canvas, scene.budget_tokens);
  work_in({}, [&](PlanSpace& space) { uniform_plans(job, level, space); });
}

void make_looks_cuda(cudaStream_t stream, const DeviceScene& scene, int tokens,
                     const DevicePlans* seen, const PlanWorkspace& workspace,
                     const DevicePlans& out) {
  const PlanJob job = job_of(stream, scene, out);
  FOVEA_CHECK(out.room >= std::min<int64_t>(tokens, grid_at(scene.canvas, 0).cells()));
  work_in(workspace, [&](PlanSpace& space) {
    look_plans(job, -1, tokens, seen == nullptr ? DevicePlans() : *seen, space);
  });
}

void find_fixations_cuda(cudaStream_t stream, const DeviceScene& scene,
                         const PlanWorkspace& workspace, const DeviceFixations& out) {
  FOVEA_CHECK(out.room >= most_fixations(scene));
  work_in(workspace, [&](PlanSpace& space) { find_peaks({stream, &scene, {}}, out, space); });
}

}  // namespace fovea
