// SPDX-License-Identifier: Apache-2.0
// Tools that a model may call, and its calls: JSON texts -> what a chat template gets.
#pragma once

#include <string_view>

#include "fovea/result.h"
#include "language/template/value.h"

namespace fovea {

// A list of objects, as OpenAI's chat API has them, in the order of their keys. `what` names the
// text in an error. Its texts come from `source` (sourced_text.h).
Result<jinja::Value> tools_value(std::string_view what, std::string_view json, char source);

// Whether tools_value() takes it.
Status check_tools(std::string_view what, std::string_view json);

}  // namespace fovea
