// SPDX-License-Identifier: Apache-2.0
// The engine's errors as exceptions of ../fovea/errors.py.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "fovea/result.h"

namespace fovea::python {

// Raises fovea.InputError or fovea.WorkError with the error's line and reason. Needs Python's lock.
[[noreturn]] void raise(const Error& error);

// Raises TypeError, with one line too.
[[noreturn]] void raise_type(const std::string& message);

// What a message is, whatever it quotes: one printable line of at most 500 characters.
std::string one_line(const std::string& text);

template <class T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

}  // namespace fovea::python
