// SPDX-License-Identifier: Apache-2.0
// Pictures that a request names by a file URL -> their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/api_error.h"
#include "serve/pictures/pictures.h"

namespace fovea::serve {

// "file:///path" or "file://localhost/path", of a plain file inside limits.folder once all links
// are resolved. The error is the same for what lies outside and for what is not there.
ApiResult<std::vector<uint8_t>> read_picture_file(const std::string& url,
                                                  const PictureLimits& limits,
                                                  const std::string& param);

// Opens a file for reading, by a path from the folder downwards; no part of it may be a link, and
// nothing that waits or answers to being opened is: -1 then, and where there is none.
int open_below(const std::string& folder, const std::string& relative);

}  // namespace fovea::serve
