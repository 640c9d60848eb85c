// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>

#include "language/template/renderer.h"

namespace fovea::jinja {

using Filter = Value (*)(const Value& input, const Arguments& arguments, Renderer& renderer);

const std::map<std::string_view, Filter>& value_filters();
const std::map<std::string_view, Filter>& list_filters();

}  // namespace fovea::jinja
