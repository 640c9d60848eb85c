// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <filesystem>

#include "device/cpu/cpu.h"

namespace fovea {
namespace {

// Beside the program: bin/fovea and lib/libfovea_cuda.so, in a build folder and after installing.
std::filesystem::path library_folder() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return {};
  const std::filesystem::path program(std::string(path, static_cast<size_t>(length)));
  return program.parent_path().parent_path() / "lib";
}

void append_devices(const std::string& kind, std::vector<Device>& devices) {
  const std::string file = "libfovea_" + kind + ".so";
  void* library = dlopen((library_folder() / file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;  // not built, or the machine has no driver for it
  const auto list = reinterpret_cast<ListDevices>(dlsym(library, kListDevicesSymbol));
  if (list == nullptr) return;
  std::vector<std::string> found;
  list(
      [](void* context, const char* description) {
        static_cast<std::vector<std::string>*>(context)->emplace_back(description);
      },
      &found);
  for (size_t i = 0; i < found.size(); ++i)
    devices.push_back({kind + ":" + std::to_string(i), found[i]});
}

}  // namespace

std::vector<Device> list_devices() {
  std::vector<Device> devices{{"cpu", describe_cpu()}};
  append_devices("cuda", devices);
  append_devices("vulkan", devices);
  return devices;
}

}  // namespace fovea
