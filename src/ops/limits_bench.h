// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most: the limits that the benches of operations are held against.
#pragma once

#include <cstddef>

#include "base/threads.h"

namespace fovea {

// f32 operations (a fused multiply-add is two) per ms on registers alone, on all threads.
double multiply_adds_per_ms(Threads& threads);

// Reads the memory, with a plain sum over it, on all threads: what is timed for the read bandwidth.
void read_all(Threads& threads, const void* data, size_t bytes);

}  // namespace fovea
