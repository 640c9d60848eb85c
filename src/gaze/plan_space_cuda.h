// SPDX-License-Identifier: Apache-2.0
// How the kernels of the plan makers share a workspace, and the makers themselves. Each is called
// twice: without memory to learn how much it takes, and with it to work.
#pragma once

#include "gaze/plans_cuda.h"
#include "gaze/split_cuda.h"

namespace fovea {

// What the variables of the kernels themselves take of shared memory, at most.
inline constexpr size_t kSharedOfKernels = size_t{2} << 10;

class PlanSpace {
 public:
  // Measures.
  explicit PlanSpace(size_t shared_limit_bytes) : shared_limit_(shared_limit_bytes) {}
  explicit PlanSpace(const PlanWorkspace& workspace)
      : data_(workspace.data), shared_limit_(workspace.shared_limit_bytes), works_(true) {}

  template <class T>
  T* take(size_t count) {
    const size_t at = used_;
    used_ += (count * sizeof(T) + 15) / 16 * 16;
    return works_ ? reinterpret_cast<T*>(data_ + at) : nullptr;
  }
  // Null where `bytes` fit in shared memory, besides `also`.
  unsigned char* take_unless_shared(size_t blocks, size_t bytes, size_t also) {
    return shared_fits(bytes + also) ? nullptr : take<unsigned char>(blocks * bytes);
  }
  bool shared_fits(size_t bytes) const { return bytes + kSharedOfKernels <= shared_limit_; }

  size_t used() const { return used_; }
  bool works() const { return works_; }

 private:
  unsigned char* data_ = nullptr;
  size_t used_ = 0;
  size_t shared_limit_ = 0;
  bool works_ = false;
};

// What launch() is told, so that it asks for more than 48 KiB where kernel and caller together need
// more.
inline size_t shared_request(size_t bytes) {
  constexpr size_t kAlways = size_t{48} << 10;
  return bytes + kSharedOfKernels > kAlways && bytes <= kAlways ? kAlways + 16 : bytes;
}

// Barriers are cheaper for few threads, large canvases need many.
inline unsigned threads_for(int cells) { return cells <= 4096 ? 256 : 1024; }

struct PlanJob {
  cudaStream_t stream = nullptr;
  const DeviceScene* scene = nullptr;
  DevicePlans out;
};

void uniform_plans(const PlanJob& job, int level, PlanSpace& space);
void cortical_plans(const PlanJob& job, PlanSpace& space);
void thresholds_plans(const PlanJob& job, PlanSpace& space);
void quadtree_plans(const PlanJob& job, PlanSpace& space);
void proportional_plans(const PlanJob& job, PlanSpace& space);
void top_k_plans(const PlanJob& job, PlanSpace& space);
// With the glance of level `glance` before it; none for -1.
void look_plans(const PlanJob& job, int glance, int64_t tokens, const DevicePlans& seen,
                PlanSpace& space);
void find_peaks(const PlanJob& job, const DeviceFixations& out, PlanSpace& space);

}  // namespace fovea
