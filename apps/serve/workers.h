// SPDX-License-Identifier: Apache-2.0
// Threads for work that may wait: fetching pictures, decoding them, reading large bodies.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace fovea::serve {

class Workers {
 public:
  Workers() = default;
  // Waits for jobs that have begun; the others are dropped.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Starts threads, as many as the system has of those that are wanted; where it has not all, some
  // are left to others who need one. Once; how many there are now.
  int start(int wanted);

  // Jobs begin in the order they come. One that runs out of memory is given up.
  void add(std::function<void()> job);

 private:
  void work(size_t number);

  std::mutex mutex_;
  std::condition_variable changed_;
  // No deque: one takes memory when it is made, and where jobs are dropped there may be none.
  std::list<std::function<void()>> jobs_;
  bool stop_ = false;
  size_t most_ = SIZE_MAX;  // those with higher numbers end
  std::vector<std::thread> threads_;
};

// Jobs of which one runs at a time, however many threads bring them: the others wait here, and no
// thread waits with them.
class OneByOne {
 public:
  // Runs it now, and then those that come meanwhile; or leaves it to the thread that does so
  // already. One that runs out of memory is given up.
  void run(std::function<void()> job);

 private:
  std::mutex mutex_;
  bool runs_ = false;
  std::list<std::function<void()>> waiting_;  // no deque, as above
};

}  // namespace fovea::serve
