// SPDX-License-Identifier: Apache-2.0
// The subset of Jinja that chat templates are written in, rendered as transformers renders it:
// trim_blocks, lstrip_blocks, loop controls, nothing that changes a value.
//
//   auto chat = Template::parse("{% for m in messages %}{{ m.content }}{% endfor %}");
//   auto text = chat->render({{"messages", messages}});
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/result.h"
#include "language/sourced_text.h"

namespace fovea {

namespace jinja {
struct Statement;
class Value;
}  // namespace jinja

// What a rendering took of what it may take (template/budget.h).
struct RenderCost {
  size_t steps = 0;
  size_t max_steps = 0;
  size_t bytes = 0;  // the most that its values held at one time
  size_t max_bytes = 0;
};

struct RenderOptions {
  std::function<bool()> keep_going;  // asked while it works; false ends it with an error
  RenderCost* cost = nullptr;        // gets what it took, failed or not
};

class Template {
 public:
  static Result<Template> parse(std::string_view source);

  using Variables = std::vector<std::pair<std::string, jinja::Value>>;

  // Whatever the template does with a text of people, what comes of it is known to be theirs. A
  // template that goes on for ever, or makes too much, is an error.
  Result<SourcedText> render_sourced(const Variables& variables,
                                     const RenderOptions& options = {}) const;

  // The same of an object, all of whose texts count as the template's.
  Result<std::string> render(const nlohmann::ordered_json& variables,
                             const RenderOptions& options = {}) const;

 private:
  using Body = std::vector<jinja::Statement>;
  explicit Template(std::shared_ptr<const Body> body) : body_(std::move(body)) {}
  std::shared_ptr<const Body> body_;
};

}  // namespace fovea
