// SPDX-License-Identifier: Apache-2.0
// What the engine found out, as the dataclasses of ../fovea/words.py.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "fovea/fovea.h"

namespace fovea::python {

// The arrays of what comes out lie in the memory of what goes in.
nanobind::object answer_object(const std::shared_ptr<Answer>& answer, std::vector<float> logits);
nanobind::object sight_object(const std::shared_ptr<Sight>& sight);
nanobind::object plan_object(nanobind::handle words, Plan& plan, Size canvas,
                             nanobind::handle owner);
nanobind::object memory_object(const MemoryUsage& memory);

}  // namespace fovea::python
