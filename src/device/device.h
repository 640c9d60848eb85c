// SPDX-License-Identifier: Apache-2.0
// What this machine can compute on. CUDA and Vulkan live in libraries of their own that are opened
// at run time, so one program serves machines with and without them.
#pragma once

#include <vector>

#include "fovea/words.h"

namespace fovea {

// The CPU first, then what libfovea_cuda.so and libfovea_vulkan.so find.
std::vector<Device> list_devices();

// The name each run-time library exports, and its form: calls `found` for each device in order.
inline constexpr const char* kListDevicesSymbol = "fovea_list_devices";
using FoundDevice = void (*)(void* context, const char* description);
using ListDevices = void (*)(FoundDevice found, void* context);

}  // namespace fovea
