// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, opened where it is first asked for: half a gigabyte that NVIDIA brings with the toolkit
// or as a wheel, and that a machine may be without.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fovea {

// Whether it is there. Emulated, it is not.
bool has_cublaslt();

// The files that may be it, best first: what $FOVEA_CUBLASLT_LIBRARY names, and that alone; else
// `name` by itself, which the loader looks for, of the toolkits that are installed, and of NVIDIA's
// wheels, nvidia/*/lib, beside the packages that hold `folder` or that $VIRTUAL_ENV has.
std::vector<std::string> cublaslt_files(const std::string& name,
                                        const std::filesystem::path& folder);

}  // namespace fovea
