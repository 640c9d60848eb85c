// SPDX-License-Identifier: Apache-2.0
#include "language/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
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

Result<SourcedText> Template::render_sourced(const Variables& variables,
                                             const RenderOptions& options) const {
  size_t input_bytes = 0;
  for (const auto& [name, value] : variables) input_bytes += value.text_bytes();
  jinja::Budget budget(input_bytes, options.keep_going);
  const auto report = [&] {
    if (options.cost != nullptr)
      *options.cost = {budget.spent_steps(), budget.max_steps(), budget.most_bytes(),
                       budget.max_bytes()};
  };
  try {
    jinja::Scope globals;
    for (const auto& [name, value] : variables) globals.set(name, value);
    jinja::Scope scope(&globals);
    SourcedText text = jinja::Renderer().render(*body_, scope).take();
    report();
    return text;
  } catch (const jinja::TemplateError& error) {
    report();
    return wrong("failed", error.message);
  }
}

Result<std::string> Template::render(const nlohmann::ordered_json& variables,
                                     const RenderOptions& options) const {
  Variables values;
  try {
    for (const auto& [name, value] : variables.items())
      values.emplace_back(name, jinja::Value::from_json(value));
  } catch (const jinja::TemplateError& error) {
    return wrong("failed", error.message);
  }
  auto text = render_sourced(values, options);
  if (!text) return text.error();
  return std::move(text->bytes);
}

}  // namespace fovea
