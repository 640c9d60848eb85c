// SPDX-License-Identifier: Apache-2.0
// For tests: the memory of an emulated device can be made to run out, and says what was taken of
// it. Pinned memory of the host is part of it. What tests models reaches it by
// Accelerator::function().
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace fovea::emulate {

// Which allocations fail.
struct MemoryFaults {
  int64_t before = -1;  // so many succeed before one fails; below 0: none fails for its number
  bool once = false;    // those after it succeed again, in place of failing too
  size_t most_bytes = std::numeric_limits<size_t>::max();  // larger ones fail
};

// What was taken since faults were last set, and what is held.
struct MemoryTaken {
  int64_t allocations = 0;   // asked for
  int64_t failures = 0;      // of them
  size_t largest_bytes = 0;  // of them
  int64_t held = 0;          // allocations that were not given back yet, whenever they were made
};

// Sets which fail from now on; what was taken until now. From any thread.
MemoryTaken set_memory_faults(const MemoryFaults& faults);

// What an emulated library exports for it.
inline constexpr const char* kSetMemoryFaultsSymbol = "fovea_set_memory_faults";
using SetMemoryFaults = void (*)(const MemoryFaults& faults, MemoryTaken& taken);

}  // namespace fovea::emulate
