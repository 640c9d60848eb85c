// SPDX-License-Identifier: Apache-2.0
// What this CPU is and which of its SIMD instructions the kernels use.
#pragma once

#include <string>
#include <vector>

namespace fovea {

// "AMD EPYC, 2 cores, AVX3_DL, AVX3, AVX2, SSE4, ..."
std::string describe_cpu();

// The Highway targets this CPU runs, best first: run-time dispatch picks the first one compiled.
std::vector<std::string> simd_targets();

}  // namespace fovea
