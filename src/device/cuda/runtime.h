// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime, or what stands for it on a CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(FOVEA_EMULATE)
#include "device/cuda/emulate.h"
#else
#include <cuda_runtime.h>
namespace fovea {
inline constexpr bool kEmulated = false;
}
#endif
