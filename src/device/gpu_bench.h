// SPDX-License-Identifier: Apache-2.0
// What a run-time library and the program share to time a device: the library measures, the program
// prints, and lends its own functions, so that every row is verified against the CPU.
#pragma once

#include <memory>
#include <string>

#include "base/threads.h"
#include "bench/bench.h"
#include "device/accelerator.h"

namespace fovea {

class GpuBench {
 public:
  GpuBench() = default;
  GpuBench(const GpuBench&) = delete;
  GpuBench& operator=(const GpuBench&) = delete;
  virtual ~GpuBench() = default;

  virtual void progress(const std::string& name) = 0;
  virtual void add(bool verified, const BenchRow& row) = 0;
  // As Bench::wants().
  virtual bool wants(const std::string& /*name*/) const { return true; }
  // A row, or what makes several, could not be measured.
  virtual void fail(const std::string& name, const Error& error) = 0;

  // What the CPU's functions are called with.
  virtual Threads& threads() = 0;
  // One of the program's functions, by its name; null: it has none of that name. Cast it to
  // decltype(&f), which both sides know from the same header.
  virtual void* of_cpu(const char* name) const = 0;
};

// What each run-time library exports for it: adds the rows of its kernels.
inline constexpr const char* kBenchGpuSymbol = "fovea_bench_gpu";
using BenchGpu = void (*)(const std::shared_ptr<Accelerator>& device, GpuBench& bench);

}  // namespace fovea
