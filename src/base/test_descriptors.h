// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace fovea {

// UndefinedBehaviorSanitizer, which is built with AddressSanitizer, opens a pipe to see whether it
// may read an object, and takes objects for invalid where there are no descriptors for one.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitizerTakesDescriptors = true;
#else
inline constexpr bool kSanitizerTakesDescriptors = false;
#endif

// While it lives the process can open nothing: EMFILE, as where too much is open.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &old_);
    rlimit none = old_;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &old_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit old_{};
};

}  // namespace fovea
