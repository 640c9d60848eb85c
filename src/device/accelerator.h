// SPDX-License-Identifier: Apache-2.0
// A device that models run on: the CPU, or one that a run-time library makes. Rooms ask that
// library for their own parts by name, so that a new part needs no new line here; those of the CPU
// are in the program.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/check.h"
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
  // Whether work is enqueued, and goes on while the host does something else.
  virtual bool works_ahead() const = 0;
  // Whether requests share passes. One pass more then costs more than the rows in it, so that
  // prompts are read whole. Else requests follow one another, in pieces that others come between.
  virtual bool shares_passes() const = 0;
  // Until all that was enqueued is done.
  virtual Status wait() = 0;

  // Where set, called where a stage of a request ends, and no work is enqueued ahead of what was
  // asked for: for those who want each stage by itself. Set between requests.
  std::function<void(const std::string& stage)> on_stage;

  // A function of the library this device came from, by the name it exports; null: it has none.
  void* function(const char* name) const;
  // What makes a part of a room on this device: the library's function, or the CPU's own.
  template <class Make>
  Make maker(const char* name, Make of_cpu) const {
    if (!has_library()) return of_cpu;
    const auto make = reinterpret_cast<Make>(function(name));
    FOVEA_CHECK(make != nullptr);
    return make;
  }

 private:
  friend Result<std::shared_ptr<Accelerator>> open_accelerator(const std::string&, bool);
  virtual bool has_library() const { return true; }

  void* library_ = nullptr;  // null: what it exports is in the program
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

// Opens what list_devices() names: "cpu", "cuda:1", or "cuda" for the first. The error says which
// devices there are, or why the library does not open.
Result<std::shared_ptr<Accelerator>> open_accelerator(const std::string& name, bool portable);
std::shared_ptr<Accelerator> open_cpu();

// What each run-time library exports for it.
inline constexpr const char* kOpenAcceleratorSymbol = "fovea_open_accelerator";
using OpenAccelerator = void (*)(const AcceleratorOptions& options,
                                 Result<std::shared_ptr<Accelerator>>& result);

}  // namespace fovea
