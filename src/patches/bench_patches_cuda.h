// SPDX-License-Identifier: Apache-2.0
// Patches on the device against the CPU's, for benches.
#pragma once

#include <vector>

#include "device/cuda/gpu_bench.h"
#include "patches/device_patches.h"

namespace fovea {

inline size_t patch_values(int frames) { return static_cast<size_t>(kPatchValues / 2 * frames); }

// Whether the values of one image are what the CPU samples from its pyramid.
inline bool same_patches(CudaBench& bench, const DevicePatches& patches, int image,
                         const Pyramid& pyramid, const Plan& plan) {
  const auto sample =
      reinterpret_cast<decltype(&sample_patches)>(bench.report().of_cpu("sample_patches"));
  if (sample == nullptr) return false;
  const Patches expected = sample(bench.report().threads(), pyramid, plan, PatchFormat::kBFloat16);
  const std::vector<int> span = bench.on_host(patches.offsets + image, 2);
  if (span[0] < 0 || span[1] - span[0] != expected.count) return false;
  const size_t each = patch_values(patches.frames);
  const auto got = bench.on_host(patches.values + static_cast<size_t>(span[0]) * each,
                                 static_cast<size_t>(expected.count) * each);
  for (size_t i = 0; i < got.size(); ++i) {
    // [channel][frame][256], and both frames of a still image are alike.
    const size_t value = i % each;
    const size_t same = patches.frames == 2 ? value : value / 256 * 512 + value % 256;
    if (got[i] != expected.bf16[i / each * kPatchValues + same]) return false;
  }
  return true;
}

}  // namespace fovea
