// SPDX-License-Identifier: Apache-2.0
#include "places.h"

namespace fovea {

std::string source_dir() { return FOVEA_SOURCE_DIR; }
std::string program_path() { return FOVEA_PROGRAM; }
std::string library_file() { return FOVEA_LIBRARY; }
std::string emulated_library() { return FOVEA_EMULATED_LIBRARY; }
std::string cuda_library() { return FOVEA_CUDA_LIBRARY; }
std::string module_file() { return FOVEA_MODULE; }
std::string module_host() { return FOVEA_MODULE_HOST; }

}  // namespace fovea
