// SPDX-License-Identifier: Apache-2.0
// Where the running code lies, to find what was installed with it.
#pragma once

#include <filesystem>

namespace fovea {

// That of the program, by its real path: links to it lead to it. Empty: not known.
std::filesystem::path program_folder();

// That of the shared library which holds this code, such as a Python module, by its real path too.
// Empty: it is the program that holds it, or not known.
std::filesystem::path library_folder();

}  // namespace fovea
