// SPDX-License-Identifier: Apache-2.0
// Walks a template's tree: statements in render.cc, expressions in evaluate.cc.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "language/template/syntax.h"
#include "language/template/value.h"

namespace fovea::jinja {

// Names and their values; those of the scopes around it are seen, not changed.
class Scope {
 public:
  explicit Scope(const Scope* parent = nullptr) : parent_(parent) {}
  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;  // null: not there

 private:
  const Scope* parent_;
  Names values_;
};

struct Arguments {
  Value::Items positional;
  std::vector<std::pair<std::string_view, Value>> named;  // by the template's own names

  // One value for each parameter, undefined where none is given; more or others are an error.
  Value::Items bind(std::string_view function,
                    std::initializer_list<std::string_view> parameters) const;
};

class Renderer {
 public:
  Text render(const Body& body, Scope& scope);
  Value evaluate(const Expression& node, Scope& scope);
  Value call(const Value& callee, const Arguments& arguments);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Statements
  Flow run(const Body& body, Scope& scope, Text& out);
  Flow run(const Statement& node, Scope& scope, Text& out);
  Flow run_if(const Statement& node, Scope& scope, Text& out);
  Flow run_for(const Statement& node, Scope& scope, Text& out);
  Text block_text(const Statement& node, Scope& scope);
  Value filtered_block(const Statement& node, Scope& scope);
  static void assign(const Statement& node, const Value& value, Scope& scope);
  Text call_macro(const Callable& macro, const Arguments& arguments);

  // Expressions
  Value evaluate_parts(const Expression& node, Scope& scope);
  Value evaluate_item(const Expression& node, Scope& scope);
  Value evaluate_compare(const Expression& node, Scope& scope);
  Value evaluate_slice(const Expression& node, Scope& scope);
  Value evaluate_dict(const Expression& node, Scope& scope);
  Arguments evaluate_arguments(const Expression& node, Scope& scope);

  struct Depth {
    explicit Depth(int& count) : depth(count) {
      if (++depth > 2 * Budget::kMaxDepth) fail("its calls are nested too deep");
    }
    ~Depth() { --depth; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    int& depth;
  };

  int depth_ = 0;
};

// The names a template finds everywhere: range, namespace, dict, raise_exception, strftime_now.
bool is_function(std::string_view name);
Value call_function(std::string_view name, const Arguments& arguments);

bool has_method(const Value& self, std::string_view name);
Value call_method(const Value& self, std::string_view name, const Arguments& arguments);

Value attribute_of(const Value& self, std::string_view name);
Value item_of(const Value& self, const Value& key);
Value arithmetic(const Value& a, char operation, const Value& b);

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments,
                   Renderer& renderer);
bool apply_test(std::string_view name, const Value& input, const Arguments& arguments);

}  // namespace fovea::jinja
