// SPDX-License-Identifier: Apache-2.0
// Calls that the engine has, and those of them that it had no room for: these wait until another
// call ends, which may be what they lacked.
#pragma once

#include <functional>
#include <list>
#include <mutex>

namespace fovea::serve {

// May be used from any thread.
class RoomQueue {
 public:
  // A call goes to the engine. It counts until leave().
  void enter();
  // A call has ended and holds nothing more: all that wait try again, on this thread, those that
  // came first before the others. noexcept, as what they try is.
  void leave() noexcept;

  // `who` waits; `again` must not throw. False where nothing is to be waited for: all others wait
  // themselves, or there are none.
  bool wait(const void* who, std::function<void()> again);
  // Where it waits, it tries again at once: nobody wants its answer any more.
  void hurry(const void* who) noexcept;

  int size() const;  // calls that the engine has, those that wait among them

 private:
  struct Waiting {
    const void* who;
    std::function<void()> again;
  };

  mutable std::mutex mutex_;
  int size_ = 0;
  std::list<Waiting> waiting_;  // no deque: one takes memory when it is made, as leave() must not
};

}  // namespace fovea::serve
