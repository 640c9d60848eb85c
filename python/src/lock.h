// SPDX-License-Identifier: Apache-2.0
// Python's lock: work that lets go of it, threads of the engine that take it, and what has to be
// over before Python ends.
//
// A thread that asks for the lock while Python ends never gets it: CPython stops the thread where
// it stands, in the middle of a C++ function. So the end of Python (end(), run by atexit) first
// refuses new work, stops every request, and waits until no thread is about to ask.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace fovea::python {

// Whether Python ends, so that requests are to stop; from any thread.
bool is_ending();

// Raises where Python ends. Needs the lock.
void refuse_at_end();

// Stops everything and waits for it, without the lock.
void end();

// Something that may still ask for the lock.
class Pending {
 public:
  Pending();
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
};

// While one lives, its thread works without the lock. Raises where Python ends.
class Released {
 public:
  Released();
  ~Released();
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  Pending pending_;  // counted from before the lock goes until it is back
  PyThreadState* state_;
};

// A Python object that any thread may hold and drop.
class SharedObject {
 public:
  explicit SharedObject(nanobind::object object) : object_(std::move(object)) {}
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  const nanobind::object& get() const { return object_; }  // with the lock

 private:
  nanobind::object object_;
};

// Of the process that loaded an engine: its threads are not in one that was forked off.
class Home {
 public:
  bool is_here() const { return process_ == getpid(); }
  void check() const;  // raises

 private:
  pid_t process_ = getpid();
};

}  // namespace fovea::python
