// SPDX-License-Identifier: Apache-2.0
// How far long work has come.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "fovea/command.h"

namespace fovea::app {

// A bar on a terminal, nothing elsewhere. It is gone when it ends.
class Bar {
 public:
  explicit Bar(const Common& common);
  ~Bar();
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;

  void draw(const char* what, size_t done, size_t total);  // as often as one likes

 private:
  bool show_;
  const char* what_ = nullptr;
  size_t first_ = SIZE_MAX;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace fovea::app
