// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace fovea::python {

void add_cards(nanobind::module_& module);
void add_engine(nanobind::module_& module);
void add_ops(nanobind::module_& module);
void add_see(nanobind::module_& module);

}  // namespace fovea::python
