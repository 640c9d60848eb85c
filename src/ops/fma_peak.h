// SPDX-License-Identifier: Apache-2.0
// The ceiling that the benches of arithmetic compare with.
#pragma once

#include "base/threads.h"

namespace fovea {

// GFLOP/s of fused multiply-adds that touch registers alone, on all threads: the best of several
// runs of some ms.
double fma_peak_gflops(Threads& threads);

}  // namespace fovea
