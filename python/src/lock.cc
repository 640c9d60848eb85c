// SPDX-License-Identifier: Apache-2.0
#include "lock.h"

#include <pthread.h>

#include <atomic>
#include <stdexcept>

#include "errors.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

std::atomic<bool> ending = false;
std::atomic<int> pending = 0;

// What was pending in the parent is not in its child, where one thread alone goes on.
const int watches_forks = pthread_atfork(nullptr, nullptr, [] { pending = 0; });

}  // namespace

bool is_ending() { return ending; }

void refuse_at_end() {
  // Not of fovea.errors, which may be gone by then.
  if (ending) throw std::runtime_error("Python ends: the engine takes no more work");
}

void end() {
  ending = true;
  static_cast<void>(watches_forks);
  const nb::gil_scoped_release released;
  for (int count = pending; count > 0; count = pending) pending.wait(count);
}

Pending::Pending() { ++pending; }
Pending::~Pending() {
  --pending;
  pending.notify_all();
}

Released::Released() {
  refuse_at_end();
  state_ = PyEval_SaveThread();
}
Released::~Released() { PyEval_RestoreThread(state_); }

SharedObject::~SharedObject() {
  const nb::gil_scoped_acquire lock;
  object_.reset();
}

void Home::check() const {
  if (!is_here())
    raise(
        failed("this engine was loaded in another process, and its threads did not come along; "
               "load one after the fork"));
}

}  // namespace fovea::python
