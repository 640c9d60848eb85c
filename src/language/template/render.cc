// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "language/template/renderer.h"

namespace fovea::jinja {

void Scope::set(std::string_view name, Value value) {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    values_.emplace(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    Budget::spend(1);
    const auto found = scope->values_.find(name);
    if (found != scope->values_.end()) return &found->second;
  }
  return nullptr;
}

Value::Items Arguments::bind(std::string_view function,
                             std::initializer_list<std::string_view> parameters) const {
  if (positional.size() > parameters.size())
    fail(fmt::format("{} takes {} arguments, not {}", function, parameters.size(),
                     positional.size()));
  Budget::spend(named.size());
  Value::Items values = positional;
  values.resize(parameters.size());
  for (const auto& [name, value] : named) {
    const auto* found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) fail(fmt::format("{} takes no argument '{}'", function, name));
    values[static_cast<size_t>(found - parameters.begin())] = value;
  }
  return values;
}

Text Renderer::render(const Body& body, Scope& scope) {
  Text out;
  run(body, scope, out);
  return out;
}

Renderer::Flow Renderer::run(const Body& body, Scope& scope, Text& out) {
  const Depth depth(depth_);
  for (const Statement& node : body) {
    Budget::spend(4);
    const Flow flow = run(node, scope, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run(const Statement& node, Scope& scope, Text& out) {
  switch (node.kind) {
    case Statement::Kind::kText:
      out.append(node.name);
      break;
    case Statement::Kind::kOutput:
      out.append(to_text(evaluate(*node.expressions[0], scope)));
      break;
    case Statement::Kind::kIf:
      return run_if(node, scope, out);
    case Statement::Kind::kFor:
      return run_for(node, scope, out);
    case Statement::Kind::kSet:
      assign(node, evaluate(*node.expressions[0], scope), scope);
      break;
    case Statement::Kind::kSetBlock:
      assign(node, filtered_block(node, scope), scope);
      break;
    case Statement::Kind::kMacro:
      scope.set(node.name, std::make_shared<const Callable>(Callable{&node, &scope, "", {}}));
      break;
    case Statement::Kind::kFilter:
      out.append(to_text(filtered_block(node, scope)));
      break;
    case Statement::Kind::kScope:
      out.append(block_text(node, scope));
      break;
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run_if(const Statement& node, Scope& scope, Text& out) {
  for (size_t i = 0; i < node.bodies.size(); ++i)
    if (i == node.expressions.size() || evaluate(*node.expressions[i], scope).truthy())
      return run(node.bodies[i], scope, out);
  return Flow::kNext;
}

namespace {

// Gives a loop's or an assignment's names their values: all to one, or one each.
void unpack(const std::vector<std::string>& names, const Value& value, Scope& scope) {
  if (names.size() == 1) return scope.set(names[0], value);
  const Value::Items items = iterate(value);
  if (items.size() != names.size())
    fail(fmt::format("{} values cannot be given to {} names", items.size(), names.size()));
  for (size_t i = 0; i < names.size(); ++i) scope.set(names[i], items[i]);
}

}  // namespace

Renderer::Flow Renderer::run_for(const Statement& node, Scope& scope, Text& out) {
  auto items = std::make_shared<Value::Items>(iterate(evaluate(*node.expressions[0], scope)));
  if (const Expression* condition = node.expressions[1].get(); condition != nullptr) {
    Value::Items kept;
    for (const Value& item : *items) {
      Scope inner(&scope);
      unpack(node.names, item, inner);
      if (evaluate(*condition, inner).truthy()) kept.push_back(item);
    }
    *items = std::move(kept);
  }
  for (size_t i = 0; i < items->size(); ++i) {
    Scope inner(&scope);
    inner.set("loop", std::make_shared<const LoopData>(LoopData{items, i}));
    unpack(node.names, (*items)[i], inner);
    if (run(node.bodies[0], inner, out) == Flow::kBreak) break;
  }
  if (items->empty()) {
    Scope inner(&scope);
    return run(node.bodies[1], inner, out);
  }
  return Flow::kNext;
}

Text Renderer::block_text(const Statement& node, Scope& scope) {
  Scope inner(&scope);
  return render(node.bodies[0], inner);
}

Value Renderer::filtered_block(const Statement& node, Scope& scope) {
  Value text = block_text(node, scope);
  if (!node.expressions[0]) return text;
  Scope inner(&scope);
  inner.set(kBlockText, std::move(text));
  return evaluate(*node.expressions[0], inner);
}

void Renderer::assign(const Statement& node, const Value& value, Scope& scope) {
  if (node.name.empty()) return unpack(node.names, value, scope);
  const Value* target = scope.find(node.names[0]);
  if (target == nullptr || !target->is(Value::Kind::kNamespace))
    fail(fmt::format("line {}: {} is no namespace, so {}.{} cannot be set", node.line,
                     node.names[0], node.names[0], node.name));
  // A namespace that held itself, or a macro of a scope that ends first, would never be right
  // again.
  if (value.is(Value::Kind::kNamespace) || value.is(Value::Kind::kCallable) ||
      value.is(Value::Kind::kLoop))
    fail(fmt::format("line {}: a {} cannot be kept in a namespace", node.line, value.type_name()));
  target->name_space().values.insert_or_assign(String(node.name), value);
}

Text Renderer::call_macro(const Callable& macro, const Arguments& arguments) {
  const Depth depth(depth_);
  const Statement& node = *macro.macro;
  if (arguments.positional.size() > node.names.size())
    fail(fmt::format("macro {} takes {} arguments, not {}", node.name, node.names.size(),
                     arguments.positional.size()));
  Scope scope(macro.scope);
  for (size_t i = 0; i < node.names.size(); ++i) {
    const std::string& name = node.names[i];
    Budget::spend(1 + arguments.named.size());
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& pair) { return pair.first == name; });
    const size_t first_default = node.names.size() - node.expressions.size();
    if (i < arguments.positional.size()) {
      scope.set(name, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      scope.set(name, named->second);
    } else if (i >= first_default) {
      scope.set(name, evaluate(*node.expressions[i - first_default], scope));
    } else {
      scope.set(name, Undefined{name});
    }
  }
  return render(node.bodies[0], scope);
}

Value Renderer::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) fail(fmt::format("'{}' is undefined", callee.undefined_name()));
  if (!callee.is(Value::Kind::kCallable))
    fail(std::string("a ") + callee.type_name() + " cannot be called");
  const Callable& callable = callee.callable();
  if (callable.macro != nullptr) return call_macro(callable, arguments);
  if (callable.self.is_undefined()) return call_function(callable.name, arguments);
  return call_method(callable.self, callable.name, arguments);
}

}  // namespace fovea::jinja
