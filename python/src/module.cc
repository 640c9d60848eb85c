// SPDX-License-Identifier: Apache-2.0
// The extension module fovea._fovea. What users see is the package around it (../fovea).
#include "module.h"

#include <nanobind/stl/string.h>

#include "errors.h"

NB_MODULE(_fovea, module) {
  module.doc() = "Fovea's C++ library; use the package fovea";
  module.def("version", [] { return FOVEA_VERSION; });
  module.def("one_line", &fovea::python::one_line, nanobind::arg("text"));
  // An engine that a program holds to its end is no mistake.
  nanobind::set_leak_warnings(false);
  fovea::python::add_cards(module);
  fovea::python::add_engine(module);
  fovea::python::add_ops(module);
  fovea::python::add_see(module);
}
