// SPDX-License-Identifier: Apache-2.0
// The device library holds the C++ library, whose random_device, which nothing here uses, asks for
// a function that glibc has since 2.36. With one of its own it opens where the program runs:
// on 2.35.
#if !defined(FOVEA_EMULATE)

#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return value;
}

#endif
