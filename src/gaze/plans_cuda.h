// SPDX-License-Identifier: Apache-2.0
// Plans of a batch of canvases of one size on the GPU: from the same maps the same cells in the
// same order as make_plan, make_glance and make_look give. Nothing is allocated or waited for, so
// that all of it can be kept in a graph; a block makes a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "device/cuda/runtime.h"
#include "fovea/words.h"
#include "gaze/device_plans.h"
#include "gaze/gaze.h"
#include "relevance/device_maps.h"

namespace fovea {

// As Scene has it. check_request's tests are the caller's.
struct DeviceScene {
  Size canvas;
  int images = 0;
  DeviceMaps relevance;  // score is null only where the maker needs none
  DeviceDetail detail;   // likewise
  // Canvas pixels. Where an image has none, or these are null, they are the peaks of relevance.
  const Point* fixations = nullptr;      // [images][fixation_room]
  const int* fixation_counts = nullptr;  // [images]
  int fixation_room = 0;
  int budget_tokens = kDefaultBudgetTokens;
  GazeParams params;
};

// Fixations as kernels write them.
struct DeviceFixations {
  int room = 0;             // most_fixations() or more
  Point* points = nullptr;  // [images][room]
  int* counts = nullptr;    // [images]
};

// Memory of the device for what does not fit in shared memory, and how much of that a block may
// have: 48 KiB everywhere, more where cudaDevAttrMaxSharedMemoryPerBlockOptin says so.
struct PlanWorkspace {
  unsigned char* data = nullptr;
  size_t bytes = 0;  // plan_workspace_bytes() or more
  size_t shared_limit_bytes = size_t{48} << 10;
};

// The most that any maker, look or search for fixations of the scene needs.
size_t plan_workspace_bytes(const DeviceScene& scene, size_t shared_limit_bytes);
// No plan of the scene holds more cells.
int plan_room(Size canvas, int budget_tokens);
// No image has more fixations, given or found.
int most_fixations(const DeviceScene& scene);
size_t shared_limit_of_device(int device);

// `out` has room for plan_room() cells an image.
void make_plans_cuda(cudaStream_t stream, MakerKind maker, const DeviceScene& scene,
                     const PlanWorkspace& workspace, const DevicePlans& out);

void make_glances_cuda(cudaStream_t stream, const DeviceScene& scene, const DevicePlans& out);

// `tokens` cells an image, or all that are left, that are not among `seen` (null: none was).
void make_looks_cuda(cudaStream_t stream, const DeviceScene& scene, int tokens,
                     const DevicePlans* seen, const PlanWorkspace& workspace,
                     const DevicePlans& out);

// Those that the scene gives; for images without, what find_fixations gives.
void find_fixations_cuda(cudaStream_t stream, const DeviceScene& scene,
                         const PlanWorkspace& workspace, const DeviceFixations& out);

}  // namespace fovea
