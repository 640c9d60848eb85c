// SPDX-License-Identifier: Apache-2.0
// A device's library that stands before the emulated one, for $FOVEA_CUDA_LIBRARY: once the file
// that $FOVEA_DEVICE_FAILS names is there, what the device computes fails, and so does opening it,
// as after an error of which a GPU does not recover. All but the opening is the emulated library's,
// which this one is linked with.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "device/accelerator.h"

namespace fovea {
namespace {

bool has_failed() {
  const char* file = std::getenv("FOVEA_DEVICE_FAILS");
  return file != nullptr && access(file, F_OK) == 0;
}

Error failure() { return failed("CUDA: a computation: unspecified launch failure"); }

OpenAccelerator emulated_opening() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&has_failed), &own) == 0) return nullptr;
  const std::string file(own.dli_fname);
  const std::string folder = file.substr(0, file.rfind('/') + 1);
  void* library = dlopen((folder + "libfovea_cuda_emulated.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr
             ? nullptr
             : reinterpret_cast<OpenAccelerator>(dlsym(library, kOpenAcceleratorSymbol));
}

}  // namespace
}  // namespace fovea

extern "C" __attribute__((visibility("default"))) void fovea_open_accelerator(
    const fovea::AcceleratorOptions& options,
    fovea::Result<std::shared_ptr<fovea::Accelerator>>& result) {
  using namespace fovea;  // NOLINT(google-build-using-namespace): the library's one function
  const OpenAccelerator open = emulated_opening();
  result = failure();
  if (has_failed() || open == nullptr) return;
  open(options, result);
  if (!result) return;
  Accelerator* device = result->get();  // which asks this itself
  device->on_stage = [device](const std::string& /*stage*/) {
    if (has_failed()) device->fail(failure());
  };
}
