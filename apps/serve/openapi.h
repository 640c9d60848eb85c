// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace fovea::serve {

// What the server answers, as an OpenAPI 3.1 document.
std::string_view openapi_json();

}  // namespace fovea::serve
