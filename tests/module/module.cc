// SPDX-License-Identifier: Apache-2.0
// A shared library that holds Fovea, as a Python module does; host.cc opens it.
#include <cstdio>

#include "fovea/fovea.h"

// Prints where a model is, or the error, then the devices, a line each.
extern "C" __attribute__((visibility("default"))) void tell_places(const char* model) {
  const auto found = fovea::find_model(model);
  std::printf("%s\n", found ? found->c_str() : found.error().message.c_str());
  for (const fovea::Device& device : fovea::devices()) std::printf("%s\n", device.name.c_str());
}
