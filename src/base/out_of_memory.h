// SPDX-License-Identifier: Apache-2.0
// Memory that runs out: thrown inside the library as std::bad_alloc, an Error to its callers.
#pragma once

#include <new>
#include <utility>

#include "fovea/result.h"

namespace fovea {

// "out of memory", and what to try where there is room left to say so.
Error out_of_memory();

// Gives what `work` returns, a Result, or the error for memory that ran out in it.
template <class Work>
auto within_memory(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace fovea
