// SPDX-License-Identifier: Apache-2.0
// A device's library that stands before the emulated one, for $FOVEA_CUDA_LIBRARY: once the file
// that $FOVEA_DEVICE_FAILS names is there, every pass of the language model fails, and so does
// opening the device, as after an error of which a GPU does not recover. All else is the emulated
// library's, which this one is linked with.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "device/accelerator.h"
#include "language/device_decoder.h"

namespace fovea {
namespace {

bool has_failed() {
  const char* file = std::getenv("FOVEA_DEVICE_FAILS");
  return file != nullptr && access(file, F_OK) == 0;
}

Error failure() { return failed("CUDA: a computation: unspecified launch failure"); }

// What the emulated library exports by that name.
template <class Function>
Function emulated(const char* name) {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&has_failed), &own) == 0) return nullptr;
  const std::string file(own.dli_fname);
  const std::string folder = file.substr(0, file.rfind('/') + 1);
  void* library = dlopen((folder + "libfovea_cuda_emulated.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

// The emulated device's decoder, until the device fails.
class FailingDecoder : public DeviceDecoder {
 public:
  explicit FailingDecoder(std::shared_ptr<DeviceDecoder> inner) : inner_(std::move(inner)) {}

  void work(Threads& threads, std::span<ForwardRequest> requests) override {
    if (!has_failed()) return inner_->work(threads, requests);
    for (ForwardRequest& request : requests) request.status = failure();
  }
  DeviceAnswers* answers() override { return inner_->answers(); }
  size_t bytes() const override { return inner_->bytes(); }
  bool has_kind(AttentionKind kind) const override { return inner_->has_kind(kind); }
  bool reads_keys() const override { return inner_->reads_keys(); }

 private:
  std::shared_ptr<DeviceDecoder> inner_;
};

}  // namespace
}  // namespace fovea

using namespace fovea;  // NOLINT(google-build-using-namespace): what follows is exported by name

extern "C" __attribute__((visibility("default"))) void fovea_open_accelerator(
    const AcceleratorOptions& options, Result<std::shared_ptr<Accelerator>>& result) {
  const auto open = emulated<OpenAccelerator>(kOpenAcceleratorSymbol);
  result = failure();
  if (!has_failed() && open != nullptr) open(options, result);
}

extern "C" __attribute__((visibility("default"))) void fovea_make_decoder(
    const std::shared_ptr<Accelerator>& device, const TextConfig& config, DecoderWeights& weights,
    Result<std::shared_ptr<DeviceDecoder>>& result) {
  const auto make = emulated<MakeDecoder>(kMakeDecoderSymbol);
  result = failure();
  if (make == nullptr) return;
  make(device, config, weights, result);
  if (result) result = std::shared_ptr<DeviceDecoder>(std::make_shared<FailingDecoder>(*result));
}
