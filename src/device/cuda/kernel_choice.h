// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fovea {

// The fastest kernels of the device, or those that every device can run.
enum class KernelChoice { kBest, kPortable };

}  // namespace fovea
