// SPDX-License-Identifier: Apache-2.0
// The subset of Jinja that chat templates are written in, rendered as transformers renders it:
// trim_blocks, lstrip_blocks, loop controls, nothing that changes a value.
//
//   auto chat = Template::parse("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor
//   %}"); auto text = chat->render({{"messages", messages}});
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "fovea/result.h"

namespace fovea {

namespace jinja {
struct Statement;
}

class Template {
 public:
  static Result<Template> parse(std::string_view source);

  // The variables are an object. A template that goes on for ever, or makes too much, is an error.
  Result<std::string> render(const nlohmann::ordered_json& variables) const;

 private:
  using Body = std::vector<jinja::Statement>;
  explicit Template(std::shared_ptr<const Body> body) : body_(std::move(body)) {}
  std::shared_ptr<const Body> body_;
};

}  // namespace fovea
