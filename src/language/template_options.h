// SPDX-License-Identifier: Apache-2.0
// What a chat template is told besides the conversation, by names of its own (enable_thinking,
// ...): a JSON text -> what the template gets.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/result.h"
#include "language/template/value.h"

namespace fovea {

// The prompt's own names (messages, tools, ...), those of special tokens and those of functions.
bool is_reserved_template_name(std::string_view name);

// A JSON object, any values; empty: none. Its texts come from `source` (sourced_text.h).
using TemplateOptions = std::vector<std::pair<std::string, jinja::Value>>;
Result<TemplateOptions> template_options(std::string_view json, char source);

// Whether template_options() takes it.
Status check_template_options(std::string_view json);

}  // namespace fovea
