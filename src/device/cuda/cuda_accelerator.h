// SPDX-License-Identifier: Apache-2.0
// A GPU as the parts of libfovea_cuda.so share it.
#pragma once

#include <mutex>
#include <string>

#include "device/accelerator.h"
#include "device/cuda/kernel_choice.h"
#include "device/cuda/stream.h"

namespace fovea {

// All work of a process on one GPU goes through one stream, one call at a time: take the lock
// before enqueueing. A call sets the device first, since CUDA keeps that for each thread.
class CudaAccelerator : public Accelerator {
 public:
  Status open(const AcceleratorOptions& options);

  std::string description() const override { return description_; }
  bool works_ahead() const override { return true; }
  bool shares_passes() const override { return true; }
  Status wait() override;

  class Lock {
   public:
    explicit Lock(CudaAccelerator& owner) : lock_(owner.mutex_), before_(memory_order()) {
      cudaSetDevice(owner.index_);
      memory_order() = {true, owner.stream_.get()};
    }
    ~Lock() { memory_order() = before_; }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::lock_guard<std::recursive_mutex> lock_;
    MemoryOrder before_;
  };

  Stream& stream() { return stream_; }
  KernelChoice kernels() const { return kernels_; }
  int capability() const { return capability_; }  // 90 for compute capability 9.0
  int processors() const { return processors_; }
  size_t shared_limit_bytes() const { return shared_limit_bytes_; }  // that a block may have

 private:
  int index_ = 0;
  int capability_ = 0;
  int processors_ = 0;
  size_t shared_limit_bytes_ = 0;
  KernelChoice kernels_ = KernelChoice::kBest;
  std::string description_;
  Stream stream_;
  std::recursive_mutex mutex_;  // a stage may end, and be waited for, within a lock
};

}  // namespace fovea
