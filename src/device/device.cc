// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/own_folders.h"
#include "device/accelerator.h"
#include "device/cpu/cpu.h"

namespace fovea {
namespace {

// What calls it does the work.
class CpuAccelerator : public Accelerator {
 public:
  std::string description() const override { return describe_cpu(); }
  bool works_ahead() const override { return false; }
  bool shares_passes() const override { return false; }
  Status wait() override { return Done{}; }

 private:
  bool has_library() const override { return false; }
};

// Where a library of that name is: near the program, bin/fovea and lib/libfovea_cuda.so, in a build
// folder and after installing; else beside a module that holds this code, or in a lib in its folder
// or near it. Else the name by itself, which the loader looks for in the system's folders.
std::string installed_library(const std::string& name) {
  std::vector<std::filesystem::path> files;
  if (const auto program = program_folder(); !program.empty())
    files.push_back(program.parent_path() / "lib" / name);
  if (const auto library = library_folder(); !library.empty()) {
    files.push_back(library / name);
    files.push_back(library / "lib" / name);
    files.push_back(library.parent_path() / "lib" / name);
  }
  std::error_code error;
  for (const auto& file : files)
    if (std::filesystem::exists(file, error)) return file.string();
  return name;
}

// $FOVEA_CUDA_LIBRARY or $FOVEA_VULKAN_LIBRARY names another file, such as an emulation.
std::string named_library(const std::string& kind) {
  std::string variable = "FOVEA_" + kind + "_LIBRARY";
  std::transform(variable.begin(), variable.end(), variable.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  const char* file = std::getenv(variable.c_str());
  return file == nullptr ? "" : file;
}

// Libraries stay open: what they made refers to them. Not built, or without what it needs on this
// machine: an error that says which.
Result<void*> open_library(const std::string& kind) {
  const std::string name = "libfovea_" + kind + ".so";
  std::string file = named_library(kind);
  if (file.empty()) file = installed_library(name);
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return failed(fmt::format("{} does not open: {}", name, dlerror()));
  return library;
}

void append_devices(const std::string& kind, std::vector<Device>& devices) {
  const auto library = open_library(kind);
  if (!library) return;
  const auto list = reinterpret_cast<ListDevices>(dlsym(*library, kListDevicesSymbol));
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

// "cuda:1" -> its kind and number.
struct DeviceName {
  std::string kind;
  int index = 0;
};

Result<DeviceName> parse_name(const std::string& name) {
  const size_t colon = name.find(':');
  DeviceName parsed{name.substr(0, colon), 0};
  bool good = parsed.kind == "cuda" || parsed.kind == "vulkan";
  if (good && colon != std::string::npos) {
    const char* begin = name.data() + colon + 1;
    const char* end = name.data() + name.size();
    const auto [stopped, error] = std::from_chars(begin, end, parsed.index);
    good = error == std::errc() && stopped == end && parsed.index >= 0;
  }
  if (!good) return bad_input(fmt::format("device '{}': use cpu, cuda[:i] or vulkan[:i]", name));
  return parsed;
}

std::string known_devices() {
  std::string names;
  for (const Device& device : list_devices()) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}

}  // namespace

std::vector<Device> list_devices() {
  std::vector<Device> devices{{"cpu", describe_cpu()}};
  append_devices("cuda", devices);
  append_devices("vulkan", devices);
  return devices;
}

void* Accelerator::function(const char* name) const {
  return has_library() ? dlsym(library_, name) : nullptr;
}

std::shared_ptr<Accelerator> open_cpu() { return std::make_shared<CpuAccelerator>(); }

Result<std::shared_ptr<Accelerator>> open_accelerator(const std::string& name, bool portable) {
  if (name == "cpu") return open_cpu();
  const auto parsed = parse_name(name);
  if (!parsed) return parsed.error();
  const auto refuse = [&](const std::string& why) {
    return bad_input(fmt::format("device {}: {}; there is {}", name, why, known_devices()));
  };
  const auto library = open_library(parsed->kind);
  if (!library) return refuse(library.error().message);
  const auto open = reinterpret_cast<OpenAccelerator>(dlsym(*library, kOpenAcceleratorSymbol));
  if (open == nullptr) return refuse("models do not run on this kind of device");
  Result<std::shared_ptr<Accelerator>> opened = failed("");
  open({.index = parsed->index, .portable = portable}, opened);
  if (!opened) return refuse(opened.error().message);
  (*opened)->library_ = *library;
  return opened;
}

}  // namespace fovea
