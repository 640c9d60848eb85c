// SPDX-License-Identifier: Apache-2.0
// Which pictures a batch is about.
#pragma once

#include <string>
#include <vector>

#include "fovea/result.h"

namespace fovea::batch {

// Files as they are named, and of folders all files below them with the names of pictures (.jpg,
// .jpeg, .png, .webp in any case), sorted by name. Names that begin with a dot are left out. Within
// one folder that is named no folder is read twice, so that links may form rings.
Result<std::vector<std::string>> find_pictures(const std::vector<std::string>& words);

}  // namespace fovea::batch
