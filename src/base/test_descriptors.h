// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace fovea {

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
