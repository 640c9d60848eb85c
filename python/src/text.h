// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

namespace fovea::python {

// A str. Texts of the engine may end inside a character, which becomes U+FFFD.
inline nanobind::object text_object(std::string_view text) {
  return nanobind::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

}  // namespace fovea::python
