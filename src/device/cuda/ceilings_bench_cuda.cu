// SPDX-License-Identifier: Apache-2.0
// What the device's memory and the way to it give at best: the limits of the other rows.
#include <algorithm>

#include "device/cuda/gpu_bench.h"
#include "device/cuda/kernel.h"

namespace fovea {
namespace {

constexpr int kThreads = 256;
constexpr int kWordsEach = 4;  // of 16 bytes, in flight at once
constexpr size_t kBytes = kEmulated ? size_t{1} << 18 : size_t{1} << 30;
constexpr size_t kUploadBytes = kEmulated ? size_t{1} << 18 : size_t{1} << 28;
constexpr size_t kWords = kBytes / sizeof(uint4);
constexpr size_t kBlockWords = size_t{kThreads} * kWordsEach;

// A block owns kThreads * kWordsEach words that lie side by side.
__global__ void __launch_bounds__(kThreads) copy_words(const uint4* from, uint4* to) {
  const size_t first = blockIdx.x * kBlockWords + threadIdx.x;
  uint4 words[kWordsEach];
#pragma unroll
  for (int i = 0; i < kWordsEach; ++i) words[i] = __ldcs(from + first + i * kThreads);
#pragma unroll
  for (int i = 0; i < kWordsEach; ++i) __stcs(to + first + i * kThreads, words[i]);
}

// Adds up all 4-byte values, so that none can be left unread; blocks take turns.
__global__ void __launch_bounds__(kThreads) add_words(const uint4* from, unsigned* sum) {
  unsigned mine = 0;
  for (size_t first = blockIdx.x * kBlockWords + threadIdx.x; first < kWords;
       first += gridDim.x * kBlockWords) {
    uint4 words[kWordsEach];
#pragma unroll
    for (int i = 0; i < kWordsEach; ++i) words[i] = __ldcs(from + first + i * kThreads);
#pragma unroll
    for (int i = 0; i < kWordsEach; ++i) mine += words[i].x + words[i].y + words[i].z + words[i].w;
  }
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_xor_sync(kAllLanes, mine, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

LaunchShape whole(cudaStream_t stream) {
  return {.grid = static_cast<unsigned>(kWords / kBlockWords), .block = kThreads, .stream = stream};
}

void add_rate(CudaBench& bench, bool verified, const char* name, double bytes_per_ms,
              const std::string& note) {
  bench.add(verified, {name, bytes_per_ms / 1e6, "GB/s", {}, note});
}

void bench_copy(CudaBench& bench, DeviceMemory<uint4>& from, DeviceMemory<uint4>& to) {
  cudaMemsetAsync(from.data(), 0x5A, kBytes, bench.get());
  cudaMemsetAsync(to.data(), 0, kBytes, bench.get());
  const auto by_kernel = [&](int) {
    launch(copy_words, whole(bench.get()), from.data(), to.data());
  };
  by_kernel(0);
  const uint4 last = bench.on_host(to.data() + kWords - 1, 1).front();
  const double kernel_ms = bench.ms_of(1, by_kernel);
  const double engine_ms =
      bench.ms_of(1, [&](int) { bench.stream().copy(to.data(), from.data(), kWords); });
  bench.ceilings.copy_bytes_per_ms = 2.0 * kBytes / std::min(kernel_ms, engine_ms);
  add_rate(bench, last.x == 0x5A5A5A5A && last.w == last.x, "ceiling/copy",
           bench.ceilings.copy_bytes_per_ms,
           text_of("read + written; a kernel %.0f, cudaMemcpy %.0f", 2.0 * kBytes / kernel_ms / 1e6,
                   2.0 * kBytes / engine_ms / 1e6));
}

void bench_read(CudaBench& bench, DeviceMemory<uint4>& from) {
  DeviceMemory<unsigned> sum;
  if (!bench.make(sum, 1)) return;
  cudaMemsetAsync(from.data(), 0x5A, kBytes, bench.get());
  cudaMemsetAsync(sum.data(), 0, sizeof(unsigned), bench.get());
  // Few enough that adding to one place takes no time.
  constexpr auto kReaders = static_cast<unsigned>(std::min(kWords / kBlockWords, size_t{4096}));
  const auto read = [&](int) {
    launch(add_words, {.grid = kReaders, .block = kThreads, .stream = bench.get()}, from.data(),
           sum.data());
  };
  read(0);
  const unsigned expected = static_cast<unsigned>(kWords * 4) * 0x5A5A5A5Au;
  const bool verified = bench.on_host(sum.data(), 1).front() == expected;
  bench.ceilings.read_bytes_per_ms = kBytes / bench.ms_of(1, read);
  add_rate(bench, verified, "ceiling/read", bench.ceilings.read_bytes_per_ms, "");
}

void bench_upload(CudaBench& bench, DeviceMemory<uint4>& to) {
  PinnedMemory<uint4> pinned;
  if (!bench.check(pinned.at_least(kUploadBytes / sizeof(uint4)))) return;
  std::fill_n(reinterpret_cast<uint32_t*>(pinned.data()), kUploadBytes / 4, 0x12345678u);
  const auto copy = [&](int) {
    bench.stream().upload(to.data(), pinned.data(), kUploadBytes / sizeof(uint4));
  };
  copy(0);
  const uint4 last = bench.on_host(to.data() + kUploadBytes / sizeof(uint4) - 1, 1).front();
  bench.ceilings.upload_bytes_per_ms = kUploadBytes / bench.ms_of(1, copy);
  add_rate(bench, last.w == 0x12345678u, "ceiling/h2d", bench.ceilings.upload_bytes_per_ms,
           "from pinned memory");
}

void run_ceilings(CudaBench& bench) {
  DeviceMemory<uint4> from;
  DeviceMemory<uint4> to;
  if (!bench.make(from, kWords) || !bench.make(to, kWords)) return;
  bench_copy(bench, from, to);
  bench_read(bench, from);
  bench_upload(bench, to);
}

const CudaBenchRegistration kRegistered(kCeilingPhase, "ceiling", run_ceilings);

}  // namespace
}  // namespace fovea
