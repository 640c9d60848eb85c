// SPDX-License-Identifier: Apache-2.0
#include "base/out_of_memory.h"

namespace fovea {
namespace {

// Short enough that a string holds it in itself: an Error with it takes no memory.
constexpr const char* kShort = "out of memory";

}  // namespace

Error out_of_memory() {
  try {
    return because(Error::Reason::kMemory, failed("out of memory; try a smaller image or budget, "
                                                  "fewer threads, or weights of int8"));
  } catch (const std::bad_alloc&) {
    Error error = failed("");
    error.message = kShort;
    error.reason = Error::Reason::kMemory;
    return error;
  }
}

}  // namespace fovea
