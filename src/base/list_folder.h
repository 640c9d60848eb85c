// SPDX-License-Identifier: Apache-2.0
// What a folder holds.
#pragma once

#include <string>
#include <system_error>
#include <vector>

namespace fovea {

// The names in a folder, "." and ".." left out, in no order; those before an error, which `error`
// tells. std::filesystem's iterators end the program where memory runs out while they go on.
std::vector<std::string> list_folder(const std::string& path, std::error_code& error);

}  // namespace fovea
