// SPDX-License-Identifier: Apache-2.0
// A fixed set of threads that share one loop at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fovea {

// The cores this process may use (its affinity mask, not the machine's).
int usable_cores();

// Runs loops over [0, count) on `size()` threads, the caller's among them. Which thread runs which
// chunk varies; chunk borders do not depend on the number of threads, so an operation that writes
// only its own chunk's output gives the same bits for any size().
class Threads {
 public:
  // Where the system has no room for so many threads, there are fewer.
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) for consecutive chunks of at most `chunk` items; returns when all are
  // done. A loop inside a loop runs on the calling thread. What a body throws (std::bad_alloc)
  // ends the loop early and is thrown here.
  void for_each(int64_t count, int64_t chunk, const std::function<void(int64_t, int64_t)>& body);

 private:
  struct Loop {
    int64_t count = 0;
    int64_t chunk = 1;
    const std::function<void(int64_t, int64_t)>* body = nullptr;
    std::atomic<int64_t> next{0};
    std::atomic<bool> ended{false};  // early: it is to stop, or a body threw
    std::atomic<bool> threw{false};
    std::exception_ptr thrown;  // by the first that threw
  };

  void work();
  static void run(Loop& loop) noexcept;

  std::vector<std::thread> workers_;
  std::mutex one_loop_;  // loops from several callers run one after the other
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Loop* loop_ = nullptr;                 // guarded by mutex_
  std::atomic<int> inside_{0};           // workers that hold loop_, changed under mutex_
  std::atomic<uint64_t> generation_{0};  // counts loops, so that a worker can spin for the next
  bool stop_ = false;                    // guarded by mutex_
};

}  // namespace fovea
