// SPDX-License-Identifier: Apache-2.0
// The program's side of device/gpu_bench.h: rows as they come, and the CPU's functions by name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/gpu_bench.h"
#include "gaze/gaze.h"
#include "patches/patches.h"
#include "pyramid/pyramid.h"
#include "relevance/relevance.h"

namespace fovea {

class GpuRows : public GpuBench {
 public:
  explicit GpuRows(Bench& bench) : bench_(bench) {}

  void progress(const std::string& name) override {
    if (bench_.progress) bench_.progress(name);
  }
  void add(bool verified, const BenchRow& row) override { bench_.add(verified, row); }
  bool wants(const std::string& name) const override { return bench_.wants(name); }
  void fail(const std::string& name, const Error& error) override {
    bench_.failed.push_back(name + ": " + error.message);
  }
  Threads& threads() override { return bench_.threads; }
  void* of_cpu(const char* name) const override {
    const std::pair<std::string_view, void*> known[] = {
        {"build_pyramid", reinterpret_cast<void*>(&build_pyramid)},
        {"measure_relevance", reinterpret_cast<void*>(&measure_relevance)},
        {"measure_detail", reinterpret_cast<void*>(&measure_detail)},
        {"make_plan", reinterpret_cast<void*>(&make_plan)},
        {"sample_patches", reinterpret_cast<void*>(&sample_patches)},
    };
    for (const auto& [its_name, its_function] : known)
      if (its_name == name) return its_function;
    return nullptr;
  }

 private:
  Bench& bench_;
};

}  // namespace fovea
