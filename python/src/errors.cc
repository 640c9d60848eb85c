// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include "text.h"

namespace nb = nanobind;

namespace fovea::python {
namespace {

const char* reason_name(Error::Reason reason) {
  switch (reason) {
    case Error::Reason::kContext:
      return "context";
    case Error::Reason::kRoom:
      return "room";
    case Error::Reason::kMemory:
      return "memory";
    case Error::Reason::kOther:
      break;
  }
  return "other";
}

}  // namespace

void raise(const Error& error) {
  const bool is_input = error.kind == Error::Kind::kBadInput;
  const nb::object kind =
      nb::module_::import_("fovea.errors").attr(is_input ? "InputError" : "WorkError");
  const nb::object made = kind(text_object(error.message), reason_name(error.reason));
  PyErr_SetObject(kind.ptr(), made.ptr());
  throw nb::python_error();
}

void raise_type(const std::string& message) {
  PyErr_SetString(PyExc_TypeError, one_line(message).c_str());
  throw nb::python_error();
}

std::string one_line(const std::string& text) { return bad_input(text).message; }

}  // namespace fovea::python
