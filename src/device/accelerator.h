// SPDX-License-Identifier: Apache-2.0
// A device that models run on. Its run-time library makes one; rooms ask that library for their own
// parts by name, so that a new part needs no new line here.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "fovea/result.h"

namespace fovea {

// Copies bytes on several threads: what the program lends a library.
using CopyBytes = std::function<void(void* to, const void* from, size_t bytes)>;

struct AcceleratorOptions {
  int index = 0;
  bool portable = false;  // kernels that every device of its kind can run, in place of the fastest
};

class Accelerator {
 public:
  Accelerator() = default;
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;
  virtual ~Accelerator() = default;

  virtual std::string description() const = 0;
  // Whether work has failed since this was last asked. Work that failed leaves nothing that may be
  // used; what is asked for next starts afresh.
  virtual Status take_status() = 0;
  virtual void fail(const Error& error) = 0;  // remembers the first
  // Until all that was enqueued is done.
  virtual Status wait() = 0;

  // Where set, called where a stage of a request ends, and no work is enqueued ahead of what was
  // asked for: for those who want each stage by itself. Set between requests.
  std::function<void(const std::string& stage)> on_stage;

  // A function of the library this device came from, by the name it exports; null: it has none.
  void* function(const char* name) const;

 private:
  friend Result<std::shared_ptr<Accelerator>> open_accelerator(const std::string&, bool);
  void* library_ = nullptr;
};

// Something that lies in a device's memory; its library knows its form.
class OnDevice {
 public:
  OnDevice() = default;
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  virtual ~OnDevice() = default;
  virtual size_t bytes() const = 0;
};

// Opens what list_devices() names: "cuda:1", or "cuda" for the first. The error says which devices
// there are, or why the library does not open.
Result<std::shared_ptr<Accelerator>> open_accelerator(const std::string& name, bool portable);

// What each run-time library exports for it.
inline constexpr const char* kOpenAcceleratorSymbol = "fovea_open_accelerator";
using OpenAccelerator = void (*)(const AcceleratorOptions& options,
                                 Result<std::shared_ptr<Accelerator>>& result);

}  // namespace fovea
