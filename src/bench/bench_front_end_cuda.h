// SPDX-License-Identifier: Apache-2.0
// The front end of a batch on the device, for benches: pyramids, detail, relevance, plans and
// patches, enqueued without a word to the host.
#pragma once

#include "device/cuda/gpu_bench.h"
#include "gaze/plans_cuda.h"
#include "patches/patches_cuda.h"
#include "pyramid/pyramid_cuda.h"
#include "relevance/relevance_cuda.h"

namespace fovea {

class BenchFrontEnd {
 public:
  bool make(CudaBench& bench, Size canvas, int images, MakerKind maker, int budget_tokens) {
    maker_ = maker;
    if (!bench.check(relevance_work_.make(canvas, images)) ||
        !bench.check(maps_.make(canvas, 0, images)) ||
        !bench.check(detail_.make(canvas, level_count(canvas), images)))
      return false;
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess)
      return bench.check(cuda_error("the device", error));
    scene_.canvas = canvas;
    scene_.images = images;
    scene_.relevance = maps_.maps().relevance;
    scene_.detail = detail_.detail();
    scene_.budget_tokens = budget_tokens;
    const size_t shared = shared_limit_of_device(device);
    const size_t work_bytes = plan_workspace_bytes(scene_, shared);
    const int room = plan_room(canvas, budget_tokens);
    const auto count = static_cast<size_t>(images);
    if (!bench.make(plan_work_, work_bytes) || !bench.make(counts_, count) ||
        !bench.make(cells_, static_cast<size_t>(room) * count))
      return false;
    workspace_ = {plan_work_.data(), work_bytes, shared};
    plans_ = {canvas, images, room, cells_.data(), counts_.data()};
    return true;
  }

  void enqueue(cudaStream_t stream, PyramidsOnDevice& pyramids, const DevicePatches& patches) {
    build_pyramids_cuda(stream, pyramids.view(), pyramids.done());
    measure_relevance_cuda(stream, pyramids.view(), nullptr, {}, relevance_work_, maps_.maps(),
                           &detail_.detail());
    make_plans_cuda(stream, maker_, scene_, workspace_, plans_);
    sample_patches_cuda(stream, pyramids.view(), plans_, patches);
  }

  const DevicePlans& plans() const { return plans_; }
  size_t room_cells() const { return cells_.size(); }  // of all images

 private:
  MakerKind maker_ = MakerKind::kQuadtree;
  RelevanceWorkspace relevance_work_;
  RelevanceMemory maps_;
  DetailMemory detail_;
  DeviceMemory<unsigned char> plan_work_;
  DeviceMemory<Cell> cells_;
  DeviceMemory<int> counts_;
  DeviceScene scene_;
  PlanWorkspace workspace_;
  DevicePlans plans_;
};

}  // namespace fovea
