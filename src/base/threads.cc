// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "base/check.h"
#include "base/stop_loops.h"

namespace fovea {
namespace {

// Loops of one question follow each other within microseconds; waking a sleeping thread takes tens
// of them, so a worker looks this often for the next loop before it sleeps.
constexpr int kSpins = 2000;

thread_local bool inside_loop = false;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void end_all(std::vector<std::thread>& workers, std::mutex& mutex, std::condition_variable& wake,
             bool& stop, std::atomic<uint64_t>& generation) {
  {
    const std::lock_guard lock(mutex);
    stop = true;
    generation.fetch_add(1, std::memory_order_release);
  }
  wake.notify_all();
  for (std::thread& worker : workers) worker.join();
  workers.clear();
}

// All threads that fit would leave no memory for what they work on. Where the address space is
// limited, each takes far more of it than its stack of 8 MB: the C library sets 64 MB aside for the
// allocations of a thread, at its first.
size_t threads_for_one() {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? 16 : 2;
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

Threads::Threads(int count) {
  FOVEA_CHECK(count >= 1);
  auto wanted = static_cast<size_t>(count - 1);
  workers_.reserve(wanted);
  const auto start = [&] {
    try {
      while (workers_.size() < wanted) workers_.emplace_back([this] { work(); });
      return true;
    } catch (const std::system_error&) {  // no room for another stack, or a limit of the system
    } catch (const std::bad_alloc&) {     // nor for what a thread is started with
    }
    return false;
  };
  while (!start()) {
    wanted = workers_.size() / threads_for_one();
    end_all(workers_, mutex_, wake_, stop_, generation_);
    stop_ = false;
  }
}

Threads::~Threads() { end_all(workers_, mutex_, wake_, stop_, generation_); }

void Threads::run(Loop& loop) noexcept {
  try {
    for (;;) {
      const int64_t begin = loop.next.fetch_add(loop.chunk, std::memory_order_relaxed);
      if (begin >= loop.count || loop.ended.load(std::memory_order_relaxed)) return;
      if (StopLoops::end_loop()) {
        loop.ended.store(true, std::memory_order_relaxed);
        return;
      }
      (*loop.body)(begin, std::min(begin + loop.chunk, loop.count));
    }
  } catch (...) {
    loop.ended.store(true, std::memory_order_relaxed);
    if (!loop.threw.exchange(true)) loop.thrown = std::current_exception();
  }
}

void Threads::work() {
  inside_loop = true;
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin)
      pause_briefly();
    Loop* loop = nullptr;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || generation_.load() != seen; });
      if (stop_) return;
      seen = generation_.load();
      loop = loop_;  // null when the caller finished the loop alone
      if (loop != nullptr) ++inside_;
    }
    if (loop == nullptr) continue;
    run(*loop);
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) done_.notify_one();
  }
}

void Threads::for_each(int64_t count, int64_t chunk,
                       const std::function<void(int64_t, int64_t)>& body) {
  FOVEA_CHECK(chunk >= 1);
  if (count <= 0 || StopLoops::end_loop()) return;
  if (inside_loop || workers_.empty() || count <= chunk) {
    for (int64_t begin = 0; begin < count && !StopLoops::end_loop(); begin += chunk)
      body(begin, std::min(begin + chunk, count));
    return;
  }
  const std::lock_guard one_loop(one_loop_);
  Loop loop;
  loop.count = count;
  loop.chunk = chunk;
  loop.body = &body;
  {
    const std::lock_guard lock(mutex_);
    loop_ = &loop;
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  inside_loop = true;
  run(loop);
  inside_loop = false;
  {
    const std::lock_guard lock(mutex_);
    loop_ = nullptr;  // a worker that comes late finds nothing
  }
  // The last chunks end within microseconds of each other, sooner than a sleeper wakes up.
  for (int spin = 0; spin < kSpins && inside_.load(std::memory_order_acquire) != 0; ++spin)
    pause_briefly();
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return inside_.load() == 0; });
  }
  if (loop.thrown) std::rethrow_exception(loop.thrown);
}

}  // namespace fovea
