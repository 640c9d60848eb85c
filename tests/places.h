// SPDX-License-Identifier: Apache-2.0
// Where the tests find things. places.cc alone is compiled with these paths, so that a compiler's
// cache serves every clone of the project.
#pragma once

#include <string>

namespace fovea {

std::string source_dir();        // the project's root
std::string program_path();      // build/<preset>/bin/fovea
std::string library_file();      // libfovea.a
std::string emulated_library();  // the kernels of libfovea_cuda.so on the CPU; empty if not built
std::string cuda_library();      // where libfovea_cuda.so is, if it was built
std::string module_file();       // a shared library that holds Fovea: module/module.cc
std::string module_host();       // a program that opens it: module/host.cc

}  // namespace fovea
