// SPDX-License-Identifier: Apache-2.0
// What a GPU's memory, the way to it and its arithmetic give at best, for device/profile.h.
#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "device/cuda/cuda_accelerator.h"
#include "device/cuda/kernel.h"
#include "device/cuda/load.h"
#include "device/profile.h"
#include "ops/matmul_cuda.h"

namespace fovea {
namespace {

constexpr int kThreads = 256;
constexpr int kWordsEach = 4;  // of 16 bytes, in flight at once
constexpr size_t kBlockWords = size_t{kThreads} * kWordsEach;
constexpr size_t kBytes = kEmulated ? size_t{1} << 18 : size_t{1} << 30;  // far beyond the caches
constexpr size_t kWords = kBytes / sizeof(uint4);
constexpr size_t kUploadBytes = kEmulated ? size_t{1} << 18 : size_t{1} << 27;
constexpr int kSide = kEmulated ? 64 : 8192;  // of the matrices
constexpr int kCalls = kEmulated ? 1 : 4;     // that follow each other
constexpr int kRounds = kEmulated ? 1 : 5;

// Adds up all values, so that none can be left unread. A block owns kBlockWords words that lie side
// by side.
__global__ void __launch_bounds__(kThreads) read_all(const uint4* from, unsigned* sum) {
  const size_t first = blockIdx.x * kBlockWords + threadIdx.x;
  uint4 words[kWordsEach];
#pragma unroll
  for (int i = 0; i < kWordsEach; ++i) words[i] = load_once(from + first + i * kThreads, true);
  unsigned mine = 0;
#pragma unroll
  for (int i = 0; i < kWordsEach; ++i) mine += words[i].x + words[i].y + words[i].z + words[i].w;
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_xor_sync(kAllLanes, mine, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

// Milliseconds of one call of several, the best of some rounds: what disturbs only ever delays.
Result<double> best_ms(Stream& stream, const std::function<void()>& enqueue) {
  using Clock = std::chrono::steady_clock;
  enqueue();
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (auto done = stream.wait(); !done) return done.error();
    const auto start = Clock::now();
    for (int call = 0; call < kCalls; ++call) enqueue();
    if (auto done = stream.wait(); !done) return done.error();
    const double ms =
        std::chrono::duration<double, std::milli>(Clock::now() - start).count() / kCalls;
    best = round == 0 ? ms : std::min(best, ms);
  }
  return best;
}

Status measure_memory(Stream& stream, DeviceCeilings& ceilings) {
  DeviceMemory<uint4> from;
  DeviceMemory<uint4> to;
  DeviceMemory<unsigned> sum;
  PinnedMemory<uint4> pinned;
  Status made = from.allocate(kWords);
  if (made) made = to.allocate(kWords);
  if (made) made = sum.allocate(1);
  if (made) made = pinned.at_least(kUploadBytes / sizeof(uint4));
  if (!made) return made;
  cudaMemsetAsync(from.data(), 0, kBytes, stream.get());
  cudaMemsetAsync(sum.data(), 0, sizeof(unsigned), stream.get());
  std::fill_n(pinned.data(), kUploadBytes / sizeof(uint4), uint4{});

  const auto copy = best_ms(stream, [&] { stream.copy(to.data(), from.data(), kWords); });
  if (!copy) return copy.error();
  const auto read = best_ms(stream, [&] {
    launch(read_all,
           {.grid = static_cast<unsigned>(kWords / kBlockWords),
            .block = kThreads,
            .stream = stream.get()},
           from.data(), sum.data());
  });
  if (!read) return read.error();
  const auto upload = best_ms(
      stream, [&] { stream.upload(to.data(), pinned.data(), kUploadBytes / sizeof(uint4)); });
  if (!upload) return upload.error();
  ceilings.copy_bytes_per_ms = 2.0 * kBytes / *copy;
  ceilings.read_bytes_per_ms = kBytes / *read;
  ceilings.upload_bytes_per_ms = kUploadBytes / *upload;
  return Done{};
}

Status measure_product(CudaAccelerator& device, DeviceCeilings& ceilings) {
  Stream& stream = device.stream();
  constexpr size_t kValues = size_t{kSide} * kSide;
  DeviceMemory<bf16> x;
  DeviceMemory<bf16> w;
  DeviceMemory<bf16> y;
  Matmuls matmuls;
  Status made = x.allocate(kValues);
  if (made) made = w.allocate(kValues);
  if (made) made = y.allocate(kValues);
  if (made) made = matmuls.open(device.kernels(), 0);
  if (!made) return made;
  // Bits that change from value to value, as those of weights do: zeros take less power. All of
  // them are finite.
  std::vector<uint16_t> bits(kValues);
  uint32_t state = 1;
  for (uint16_t& value : bits) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint16_t>((state >> 16 & 0x807F) | 0x3F00);
  }
  stream.upload(reinterpret_cast<uint16_t*>(x.data()), bits.data(), kValues);
  stream.upload(reinterpret_cast<uint16_t*>(w.data()), bits.data(), kValues);
  if (auto done = stream.wait(); !done) return done;
  MatmulJob job;
  job.x = x.data();
  job.w = w.data();
  job.y = y.data();
  job.rows = job.n = job.k = kSide;
  if (auto tuned = matmuls.tune(stream.get(), job); !tuned) return tuned;
  const auto ms = best_ms(stream, [&] { matmuls.run(stream.get(), job); });
  if (!ms) return ms.error();
  ceilings.flop_per_ms = 2.0 * kSide * static_cast<double>(kValues) / *ms;
  return Done{};
}

}  // namespace
}  // namespace fovea

extern "C" __attribute__((visibility("default"))) void fovea_measure_ceilings(
    const std::shared_ptr<fovea::Accelerator>& device,
    fovea::Result<fovea::DeviceCeilings>& result) {
  auto& cuda = static_cast<fovea::CudaAccelerator&>(*device);
  const fovea::CudaAccelerator::Turn turn(cuda);
  fovea::DeviceCeilings ceilings;
  fovea::Status done = fovea::measure_memory(cuda.stream(), ceilings);
  if (done) done = fovea::measure_product(cuda, ceilings);
  if (done)
    (void)(result = ceilings);
  else
    (void)(result = done.error());
}
