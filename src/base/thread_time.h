// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

namespace fovea {

// The processor time that the calling thread has had. Other work on the machine does not add to it.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace fovea
