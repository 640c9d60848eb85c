// SPDX-License-Identifier: Apache-2.0
#include "language/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "language/template/renderer.h"
#include "language/template/syntax.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

constexpr size_t kMaxSourceBytes = size_t{1} << 20;

Error wrong(const char* what, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  return bad_input(fmt::format("the chat template {}: {}", what, message));
}

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes)
    return wrong("cannot be read",
                 fmt::format("it has {} bytes, more than {}", source.size(), kMaxSourceBytes));
  if (valid_utf8_prefix(source) < source.size()) return wrong("cannot be read", "it is not UTF-8");
  try {
    return Template(std::make_shared<const Body>(jinja::parse(source)));
  } catch (const jinja::TemplateError& error) {
    return wrong("cannot be read", error.message);
  }
}

Result<std::string> Template::render(const nlohmann::ordered_json& variables) const {
  try {
    jinja::Scope globals;
    for (const auto& [name, value] : variables.items())
      globals.set(name, jinja::Value::from_json(value));
    jinja::Scope scope(&globals);
    return jinja::Renderer().render(*body_, scope);
  } catch (const jinja::TemplateError& error) {
    return wrong("failed", error.message);
  }
}

}  // namespace fovea
