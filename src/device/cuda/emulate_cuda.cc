// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "base/check.h"
#include "device/cuda/emulate.h"
#include "device/cuda/emulated_memory.h"

// The address sanitizer must be told when the stack changes. To the thread sanitizer all stacks are
// one thread, which they are.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace fovea::emulate {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = size_t{256} << 10;
#else
constexpr size_t kStackBytes = size_t{64} << 10;
#endif

// Where a stack was left. The compiler's own jumps: those of the C library are slower, and
// sanitizers take them for the end of the calls between. Callers must not know which registers a
// function that jumps leaves alone.
using Mark = void* [5];
#define FOVEA_UNWATCHED no_sanitize("address", "thread", "undefined")
#if defined(__clang__)
#define FOVEA_JUMPS __attribute__((noinline, FOVEA_UNWATCHED))
#else
#define FOVEA_JUMPS __attribute__((noipa, FOVEA_UNWATCHED))
#endif
// Never from the function that set the mark of its own stack, which the compiler would jump within.
[[noreturn]] FOVEA_JUMPS void jump_to(Mark& mark) { __builtin_longjmp(mark, 1); }

// A place to wait at until all that are expected have come.
struct Barrier {
  int expected = 0;
  int arrived = 0;
  int64_t round = 0;

  void pass() {
    arrived = 0;
    ++round;
  }
};

struct Warp {
  // By mask of the lanes that wait, since parts of a warp may meet by themselves. What they give
  // each other lies in two places alternately: nobody is two rounds ahead of another.
  struct Meeting {
    unsigned mask = 0;
    unsigned arrived = 0;
    int64_t round = 0;
    uint64_t given[2][kWarp] = {};
  };
  std::vector<Meeting> meetings;
  unsigned alive = 0;
  const void* parts[kWarp] = {};
};

struct Fiber {
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  uint3 thread;
  int index = 0;  // within the cluster
  int rank = 0;
  bool started = false;
  bool done = false;
  char* stack = nullptr;
  ucontext_t context{};
  Mark at{};
  void* fake_stack = nullptr;
};

Fiber::Fiber() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FOVEA_CHECK(memory != MAP_FAILED);
  stack = static_cast<char*>(memory);
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  // Its functions never returned: what is mapped here later would have their red zones.
  __asan_unpoison_memory_region(stack, kStackBytes);
#endif
  munmap(stack, kStackBytes);
}

// One block of those that run together.
struct Member {
  uint3 block;
  Barrier barrier;
  int count = 0;
  std::vector<unsigned char> shared;
};

// The blocks of a cluster, which mostly is one block.
class Cluster {
 public:
  // `first`: the first block of it; others follow it in x.
  void run(uint3 first, const EmulatedGrid& grid, const std::function<void()>& kernel);

  void sync() { wait_at(mine().barrier); }
  void sync_all() { wait_at(barrier_); }
  int rank() const { return current_->rank; }
  void sync_warp(unsigned mask) {
    Warp& warp = warp_of(*current_);
    meet(warp, meeting(warp, mask));
  }
  int lane() const { return lane_of(*current_); }
  int count(bool value) {
    int& count = mine().count;
    count += value ? 1 : 0;
    sync();
    const int counted = count;
    sync();
    count = 0;
    sync();
    return counted;
  }
  unsigned char* shared_of(int rank) {
    std::vector<unsigned char>& shared = members_[static_cast<size_t>(rank)].shared;
    void* at = shared.data();
    size_t space = shared.size();
    return static_cast<unsigned char*>(std::align(16, 1, at, space));
  }
  uint64_t exchange(unsigned mask, uint64_t value, int lane) {
    return give(warp_of(*current_), mask, value)[lane];
  }
  unsigned ballot(unsigned mask, bool value) {
    const uint64_t* given = give(warp_of(*current_), mask, value ? 1 : 0);
    unsigned bits = 0;
    for (int i = 0; i < kWarp; ++i)
      if (mask >> i & 1) bits |= static_cast<unsigned>(given[i]) << i;
    return bits;
  }
  void gather(const void* mine, size_t bytes, void* all) {
    Warp& warp = warp_of(*current_);
    warp.parts[lane_of(*current_)] = mine;
    sync_warp(~0u);
    for (int i = 0; i < kWarp; ++i)
      std::memcpy(static_cast<char*>(all) + static_cast<size_t>(i) * bytes, warp.parts[i], bytes);
    sync_warp(~0u);
  }

  Place place;

 private:
  void wait_at(Barrier& barrier) {
    const int64_t round = barrier.round;
    if (++barrier.arrived == barrier.expected) {
      barrier.pass();
      return;
    }
    while (barrier.round == round) yield();
  }
  Member& mine() { return members_[static_cast<size_t>(current_->rank)]; }
  static int lane_of(const Fiber& fiber) { return fiber.index % kWarp; }
  Warp& warp_of(const Fiber& fiber) { return warps_[static_cast<size_t>(fiber.index / kWarp)]; }

  static size_t meeting(Warp& warp, unsigned mask) {
    for (size_t i = 0; i < warp.meetings.size(); ++i)
      if (warp.meetings[i].mask == mask) return i;
    warp.meetings.push_back({.mask = mask});
    return warp.meetings.size() - 1;
  }
  void meet(Warp& warp, size_t at) {
    Warp::Meeting& one = warp.meetings[at];
    one.arrived |= 1u << lane_of(*current_);
    const int64_t round = one.round;
    if (settle(warp, at)) return;
    while (warp.meetings[at].round == round) yield();
  }
  // What all lanes of the mask gave.
  const uint64_t* give(Warp& warp, unsigned mask, uint64_t value) {
    const size_t at = meeting(warp, mask);
    const int64_t place_of_round = warp.meetings[at].round % 2;
    warp.meetings[at].given[place_of_round][lane_of(*current_)] = value;
    meet(warp, at);
    return warp.meetings[at].given[place_of_round];
  }
  // Lets those go who wait for nobody any more. Who has ended gives nothing.
  static bool settle(Warp& warp, size_t at) {
    Warp::Meeting& one = warp.meetings[at];
    if (one.arrived == 0 || (one.mask & warp.alive & ~one.arrived) != 0) return false;
    for (unsigned absent = one.mask & ~one.arrived; absent != 0; absent &= absent - 1)
      one.given[one.round % 2][std::countr_zero(absent)] = 0;
    one.arrived = 0;
    ++one.round;
    return true;
  }

  static void start(Fiber& fiber);
  FOVEA_JUMPS void resume(Fiber& fiber);
  FOVEA_JUMPS void yield();
  void finish(Fiber& fiber);
  static void enter();

  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  std::vector<Member> members_;
  Barrier barrier_;  // of all blocks
  Fiber* current_ = nullptr;
  Mark home_at_{};
  void* home_fake_stack_ = nullptr;
  const void* home_stack_ = nullptr;
  size_t home_stack_bytes_ = 0;
};

thread_local Cluster* running = nullptr;

// Of all devices: there is one.
class Memory {
 public:
  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const bool fails = faults_.before == 0 || bytes > faults_.most_bytes ||
                       bytes > cudaDeviceProp().totalGlobalMem;
    if (faults_.before > 0 || (faults_.before == 0 && faults_.once)) --faults_.before;
    void* data = fails ? nullptr : std::malloc(bytes);
    ++taken_.allocations;
    taken_.largest_bytes = std::max(taken_.largest_bytes, bytes);
    ++(data == nullptr ? taken_.failures : taken_.held);
    return data;
  }
  void give_back(void* data) {
    if (data == nullptr) return;
    const std::lock_guard lock(mutex_);
    --taken_.held;
    std::free(data);
  }
  MemoryTaken set(const MemoryFaults& faults) {
    const std::lock_guard lock(mutex_);
    const MemoryTaken until_now = taken_;
    faults_ = faults;
    taken_ = {.held = until_now.held};
    return until_now;
  }

 private:
  std::mutex mutex_;
  MemoryFaults faults_;
  MemoryTaken taken_;
};

Memory& memory() {
  static Memory one;
  return one;
}

Cluster& here() {
  FOVEA_CHECK(running != nullptr);  // a function of the device was called by the host
  return *running;
}

// A stack serves one thread after the other: it is entered once and never left, so that sanitizers,
// which follow calls and returns, find them in pairs.
void Cluster::enter() {
  Cluster& cluster = here();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &cluster.home_stack_, &cluster.home_stack_bytes_);
#endif
  for (;;) {
    (*cluster.kernel_)();
    cluster.finish(*cluster.current_);
    cluster.yield();
  }
}

void Cluster::start(Fiber& fiber) {
  fiber.started = true;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  // Not all stacks begin at the same place of a page, or they would push each other out of caches.
  fiber.context.uc_stack.ss_size = kStackBytes - static_cast<size_t>(fiber.index % 61) * 192;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &Cluster::enter, 0);
}

void Cluster::resume(Fiber& fiber) {
  current_ = &fiber;
  place.thread = fiber.thread;
  place.block = members_[static_cast<size_t>(fiber.rank)].block;
  const bool fresh = !fiber.started;
  if (fresh) start(fiber);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&home_fake_stack_, fiber.stack, kStackBytes);
#endif
  if (__builtin_setjmp(home_at_) == 0) {
    if (fresh) setcontext(&fiber.context);
    jump_to(fiber.at);
  }
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(home_fake_stack_, nullptr, nullptr);
#endif
}

void Cluster::yield() {
  Fiber& fiber = *current_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber.fake_stack, home_stack_, home_stack_bytes_);
#endif
  if (__builtin_setjmp(fiber.at) == 0) jump_to(home_at_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &home_stack_, &home_stack_bytes_);
#endif
}

// A thread that has ended is waited for no more.
void Cluster::finish(Fiber& fiber) {
  fiber.done = true;
  for (Barrier* barrier : {&members_[static_cast<size_t>(fiber.rank)].barrier, &barrier_})
    if (--barrier->expected == barrier->arrived && barrier->arrived > 0) barrier->pass();
  Warp& warp = warp_of(fiber);
  warp.alive &= ~(1u << lane_of(fiber));
  for (size_t i = 0; i < warp.meetings.size(); ++i) settle(warp, i);
}

void Cluster::run(uint3 first, const EmulatedGrid& grid, const std::function<void()>& kernel) {
  const dim3 block = grid.block;
  kernel_ = &kernel;
  place.block_dim = block;
  place.grid_dim = grid.grid;
  const int threads = static_cast<int>(block.x * block.y * block.z);
  const int all = threads * grid.cluster;
  FOVEA_CHECK(grid.cluster == 1 || threads % kWarp == 0);
  while (fibers_.size() < static_cast<size_t>(all)) fibers_.push_back(std::make_unique<Fiber>());
  warps_.assign(static_cast<size_t>((all + kWarp - 1) / kWarp), {});
  for (int i = 0; i < all; ++i) {
    Fiber& fiber = *fibers_[static_cast<size_t>(i)];
    const auto at = static_cast<unsigned>(i % threads);
    fiber.thread = {at % block.x, at / block.x % block.y, at / (block.x * block.y)};
    fiber.index = i;
    fiber.rank = i / threads;
    fiber.done = false;
    warp_of(fiber).alive |= 1u << lane_of(fiber);
  }
  members_.resize(static_cast<size_t>(grid.cluster));
  for (Member& member : members_) {
    member.block = first;
    ++first.x;
    member.barrier = {.expected = threads};
    member.count = 0;
    member.shared.assign(grid.shared_bytes + 16, 0xFF);
  }
  barrier_ = {.expected = all};
  for (int left = all; left > 0;) {
    for (int i = 0; i < all; ++i) {
      Fiber& fiber = *fibers_[static_cast<size_t>(i)];
      if (fiber.done) continue;
      resume(fiber);
      if (fiber.done) --left;
    }
  }
}

}  // namespace

std::function<void(bool has_ended)> previous_kernel;

MemoryTaken set_memory_faults(const MemoryFaults& faults) { return memory().set(faults); }

Place& place() { return here().place; }
unsigned char* shared_memory() { return shared_of(here().rank()); }
unsigned char* shared_of(int rank) { return here().shared_of(rank); }
int cluster_rank() { return here().rank(); }
void sync_cluster() { here().sync_all(); }
void sync_block() { here().sync(); }
void sync_warp(unsigned mask) { here().sync_warp(mask); }
int lane() { return here().lane(); }
int count_in_block(bool value) { return here().count(value); }
uint64_t exchange(unsigned mask, uint64_t value, int lane) {
  return here().exchange(mask, value, lane);
}
unsigned ballot(unsigned mask, bool value) { return here().ballot(mask, value); }
void gather(const void* mine, size_t bytes, void* all) { here().gather(mine, bytes, all); }

void run(const EmulatedGrid& grid, const std::function<void()>& kernel) {
  static thread_local Cluster runner;
  FOVEA_CHECK(running == nullptr && grid.block.x * grid.block.y * grid.block.z <= 1024);
  const auto cluster = static_cast<unsigned>(grid.cluster);
  FOVEA_CHECK(grid.grid.x % cluster == 0);
  const struct Running {
    ~Running() { running = nullptr; }
  } until_it_ends;
  running = &runner;
  for (unsigned z = 0; z < grid.grid.z; ++z)
    for (unsigned y = 0; y < grid.grid.y; ++y)
      for (unsigned x = 0; x < grid.grid.x; x += cluster) {
        if (previous_kernel) previous_kernel(false);
        runner.run({x, y, z}, grid, kernel);
      }
}

}  // namespace fovea::emulate

// Memory of the device is full of NaN before it is written.
cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = fovea::emulate::memory().take(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*data, 0xFF, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  fovea::emulate::memory().give_back(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned /*flags*/) {
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = cudaDeviceProp().totalGlobalMem;
  return cudaSuccess;
}

extern "C" __attribute__((visibility("default"))) void fovea_set_memory_faults(
    const fovea::emulate::MemoryFaults& faults, fovea::emulate::MemoryTaken& taken) {
  taken = fovea::emulate::set_memory_faults(faults);
}
