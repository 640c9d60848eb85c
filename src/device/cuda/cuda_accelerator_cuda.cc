// SPDX-License-Identifier: Apache-2.0
// Opening a GPU, for device/accelerator.h; and naming those there are, for device/device.h.
#include <cstdio>
#include <utility>

#include "device/cuda/cublaslt.h"
#include "device/cuda/cuda_accelerator.h"
#include "device/device.h"

namespace fovea {
namespace {

#if defined(FOVEA_LEAST_CAPABILITY)
constexpr int kLeastCapability = FOVEA_LEAST_CAPABILITY;  // that the kernels were compiled for
#else
constexpr int kLeastCapability = 75;
#endif

// Whether the best kernels of the device would need what is not here.
bool lacks_cublaslt(const cudaDeviceProp& device) {
  return !kEmulated && device.major >= 8 && !has_cublaslt();
}

std::string describe(const cudaDeviceProp& device) {
  char description[512];
  std::snprintf(description, sizeof description, "%s, %.1f GiB, compute capability %d.%d",
                device.name, static_cast<double>(device.totalGlobalMem) / (1024.0 * 1024 * 1024),
                device.major, device.minor);
  if (lacks_cublaslt(device))
    return std::string(description) + ", portable kernels alone: there is no cuBLASLt";
  return description;
}

// CUDA says of a missing driver that it is too old.
std::string why_none(cudaError_t error) {
  int driver = 0;
  int needed = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "no NVIDIA driver is installed";
  const auto named = [](int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  };
  if (cudaRuntimeGetVersion(&needed) == cudaSuccess && driver / 1000 < needed / 1000)
    return "the driver is too old: it knows CUDA " + named(driver) + ", and " + named(needed) +
           " is needed";
  return cudaGetErrorString(error);
}

// What is given back stays with the process, for the next that asks.
Status keep_memory(int device) {
#if !defined(FOVEA_EMULATE)
  cudaMemPool_t pool = nullptr;
  cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, device);
  uint64_t all = UINT64_MAX;
  if (error == cudaSuccess)
    error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
  if (error != cudaSuccess) return cuda_error("the device's memory pool", error);
#else
  (void)device;
#endif
  return Done{};
}

}  // namespace

Status CudaAccelerator::open(const AcceleratorOptions& options) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return failed("CUDA finds no device: " + why_none(error));
  if (options.index >= count)
    return bad_input(
        "there " + std::string(count == 1 ? "is 1 GPU" : "are " + std::to_string(count) + " GPUs") +
        ", numbered from 0");
  cudaDeviceProp device{};
  cudaError_t error = cudaGetDeviceProperties(&device, options.index);
  if (error == cudaSuccess) error = cudaSetDevice(options.index);
  if (error != cudaSuccess) return cuda_error("opening the device", error);
  capability_ = device.major * 10 + device.minor;
  if (capability_ < kLeastCapability)
    return failed(describe(device) + " is too old: " + std::to_string(kLeastCapability / 10) + "." +
                  std::to_string(kLeastCapability % 10) + " is needed");
  index_ = options.index;
  processors_ = device.multiProcessorCount;
  description_ = describe(device);
  int shared = 0;
  error = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, options.index);
  if (error != cudaSuccess) return cuda_error("opening the device", error);
  shared_limit_bytes_ = static_cast<size_t>(shared);
  kernels_ = options.portable || kEmulated || capability_ < 80 ? KernelChoice::kPortable
                                                               : KernelChoice::kBest;
  if (lacks_cublaslt(device)) kernels_ = KernelChoice::kPortable;
  if (auto kept = keep_memory(options.index); !kept) return kept;
  return stream_.open();
}

Status CudaAccelerator::wait() {
  const Lock lock(*this);
  return stream_.wait();
}

}  // namespace fovea

#define FOVEA_EXPORT extern "C" __attribute__((visibility("default")))

FOVEA_EXPORT void fovea_open_accelerator(
    const fovea::AcceleratorOptions& options,
    fovea::Result<std::shared_ptr<fovea::Accelerator>>& result) {
  auto device = std::make_shared<fovea::CudaAccelerator>();
  const fovea::Status opened = device->open(options);
  if (opened)
    result = std::shared_ptr<fovea::Accelerator>(std::move(device));
  else
    result = opened.error();
}

FOVEA_EXPORT void fovea_list_devices(fovea::FoundDevice found, void* context) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return;  // no driver: no devices
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp device{};
    if (cudaGetDeviceProperties(&device, i) == cudaSuccess)
      found(context, fovea::describe(device).c_str());
  }
}
