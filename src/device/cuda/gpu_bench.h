// SPDX-License-Identifier: Apache-2.0
// What a *_bench_cuda.cc file uses: verify first, then time by the device's own clock.
#pragma once

#include <cstdarg>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/bf16.h"
#include "device/cuda/cuda_accelerator.h"
#include "device/gpu_bench.h"
#include "device/profile.h"

namespace fovea {

// Those of the device, measured first.
DeviceCeilings& measured_ceilings();

// Runs the benches of the library, one after the other. An error is kept until the next row is
// added, which then says that it could not be measured.
class CudaBench {
 public:
  CudaBench(std::shared_ptr<CudaAccelerator> device, GpuBench& report)
      : device_(std::move(device)), report_(report) {}

  CudaAccelerator& device() { return *device_; }
  Stream& stream() { return device_->stream(); }
  cudaStream_t get() { return device_->stream().get(); }
  GpuBench& report() { return report_; }

  // Milliseconds of one call of many that follow each other, as a graph where they can be captured:
  // the median of some rounds. enqueue(i) takes the i-th of `sets` sets of buffers, i rising from 0
  // without end; there are as many as it takes for none to be found in the second cache.
  double ms_of(int sets, const std::function<void(int call)>& enqueue);
  // Milliseconds of a call by itself, each after `prepare`.
  double ms_after(const std::function<void()>& prepare, const std::function<void()>& enqueue);
  // Milliseconds by the host's clock, from the call until the device has done what it enqueued.
  double host_ms_of(const std::function<void()>& enqueue);

  bool check(const Status& status);  // keeps the first error
  bool good() const { return !error_; }
  template <class T>
  bool make(DeviceMemory<T>& memory, size_t count) {
    return check(memory.at_least(count));
  }
  template <class T>
  bool upload(DeviceMemory<T>& memory, const std::vector<T>& values) {
    if (!make(memory, values.size())) return false;
    stream().upload(memory.data(), values.data(), values.size());
    return check(stream().wait());
  }
  template <class T>
  std::vector<T> on_host(const T* values, size_t count) {
    std::vector<T> result(count);
    if (!good()) return result;
    stream().download(result.data(), values, count);
    check(stream().wait());
    return result;
  }

  // A row whose value is a time or a rate. An error since the last one takes its place.
  void add(bool verified, BenchRow row);
  // The same for what makes several rows.
  void settle(const std::string& name);

  DeviceCeilings& ceilings = measured_ceilings();

 private:
  std::shared_ptr<CudaAccelerator> device_;
  GpuBench& report_;
  std::optional<Error> error_;
};

// printf into a string.
__attribute__((format(printf, 1, 2))) inline std::string text_of(const char* format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

// What a ceiling allows: `amount` at so much a millisecond; nothing where it is not known.
inline std::optional<double> limit_of(double amount, double per_ms) {
  return per_ms > 0 ? std::optional(amount / per_ms) : std::nullopt;
}
inline double percent_of(std::optional<double> limit, double value) {
  return limit && value > 0 ? 100 * *limit / value : 0;
}

// Values that the host can tell without reading them: multiples of 1/128 from -1 to below 1, times
// `scale`, a power of two. A bf16 holds them exactly.
__host__ __device__ inline float random_value(uint32_t seed, int64_t at, float scale) {
  uint64_t z = (static_cast<uint64_t>(at) + 1) * 0x9e3779b97f4a7c15u + seed;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<float>(static_cast<int>(z >> 40 & 0xFF) - 128) * (scale / 128.0f);
}
void fill_random_cuda(cudaStream_t stream, bf16* values, int64_t count, uint32_t seed, float scale);

struct CudaBenchEntry {
  int phase;         // ceilings first
  const char* name;  // entries of a phase run in the order of their names
  void (*run)(CudaBench&);
};

std::vector<CudaBenchEntry>& cuda_bench_entries();

inline constexpr int kCeilingPhase = 0;
inline constexpr int kKernelPhase = 1;

struct CudaBenchRegistration {
  CudaBenchRegistration(int phase, const char* name, void (*run)(CudaBench&)) {
    cuda_bench_entries().push_back({phase, name, run});
  }
};

}  // namespace fovea
