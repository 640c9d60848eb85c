// SPDX-License-Identifier: Apache-2.0
// A value of each thread that ends with it, for memory that calls use one after the other.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

#include "base/check.h"

namespace fovea {

// As `thread_local T` where T has a destructor, but for one thing: where no memory is left to note
// that destructor, the C library ends the program, and here() throws std::bad_alloc.
template <class T>
class PerThread {
 public:
  PerThread() { FOVEA_CHECK(pthread_key_create(&key_, &destroy) == 0); }
  ~PerThread() {
    destroy(pthread_getspecific(key_));
    pthread_key_delete(key_);
  }
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  T& here() {
    if (void* const made = pthread_getspecific(key_)) return *static_cast<T*>(made);
    auto made = std::make_unique<T>();
    if (pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return *made.release();
  }

 private:
  static void destroy(void* made) { delete static_cast<T*>(made); }

  pthread_key_t key_{};
};

}  // namespace fovea
