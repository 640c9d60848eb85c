// SPDX-License-Identifier: Apache-2.0
// How many threads a caller of single operations may ask for.
#pragma once

#include <fmt/format.h>

#include "fovea/result.h"

namespace fovea {

inline Status check_threads(int threads) {
  constexpr int kMaxThreads = 1024;
  if (threads >= 0 && threads <= kMaxThreads) return Done{};
  return bad_input(fmt::format("{} threads: give 0 to {}", threads, kMaxThreads));
}

}  // namespace fovea
