// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "language/template/renderer.h"
#include "language/template/text.h"

namespace fovea::jinja {

using Kind = Expression::Kind;

Value Renderer::evaluate(const Expression& node, Scope& scope) {
  const Depth depth(depth_);
  Budget::spend(4 + node.name.size() / 8);
  const auto part = [&](size_t i) { return evaluate(*node.parts[i], scope); };
  switch (node.kind) {
    case Kind::kConstant:
      return node.value;
    case Kind::kName: {
      if (const Value* found = scope.find(node.name); found != nullptr) return *found;
      if (!is_function(node.name)) return Undefined{node.name};
      return std::make_shared<const Callable>(Callable{nullptr, nullptr, node.name, {}});
    }
    case Kind::kDict:
      return evaluate_dict(node, scope);
    case Kind::kAttribute:
      return attribute_of(part(0), node.name);
    case Kind::kItem:
      return evaluate_item(node, scope);
    case Kind::kSlice:
      return evaluate_slice(node, scope);
    case Kind::kNot:
      return !part(0).truthy();
    case Kind::kAnd: {
      Value left = part(0);
      return left.truthy() ? part(1) : left;
    }
    case Kind::kOr: {
      Value left = part(0);
      return left.truthy() ? left : part(1);
    }
    case Kind::kCompare:
      return evaluate_compare(node, scope);
    case Kind::kChoice:
      if (part(0).truthy()) return part(1);
      return node.parts[2] ? part(2) : Value(Undefined{"the value of an if without else"});
    default:
      return evaluate_parts(node, scope);
  }
}

// The kinds that look at all their parts, and may make something large of them.
Value Renderer::evaluate_parts(const Expression& node, Scope& scope) {
  const auto part = [&](size_t i) { return evaluate(*node.parts[i], scope); };
  Value result;
  switch (node.kind) {
    case Kind::kList:
    case Kind::kTuple: {
      Value::Items items;
      for (size_t i = 0; i < node.parts.size(); ++i) items.push_back(part(i));
      return Value::list(std::move(items), node.kind == Kind::kTuple);
    }
    case Kind::kCall: {
      const Value callee = part(0);
      result = call(callee, evaluate_arguments(node, scope));
      break;
    }
    case Kind::kFilter: {
      const Value input = part(0);
      Budget::spend(input.cost());
      result = apply_filter(node.name, input, evaluate_arguments(node, scope), *this);
      break;
    }
    case Kind::kTest:
      return apply_test(node.name, part(0), evaluate_arguments(node, scope));
    case Kind::kNegative:
      return arithmetic(int64_t{0}, '-', part(0));
    case Kind::kPositive:
      return arithmetic(int64_t{0}, '+', part(0));
    case Kind::kArithmetic: {
      const Value left = part(0);
      // "//" and "**" go by other signs, so that one character tells them all.
      const char operation = node.name == "//" ? '_' : node.name == "**" ? '^' : node.name[0];
      result = arithmetic(left, operation, part(1));
      break;
    }
    case Kind::kConcat: {
      Text text;
      for (size_t i = 0; i < node.parts.size(); ++i) text.append(to_text(part(i)));
      result = std::move(text);
      break;
    }
    default:
      fail("an expression of an unknown kind");
  }
  Budget::spend(result.cost());
  return result;
}

Arguments Renderer::evaluate_arguments(const Expression& node, Scope& scope) {
  Arguments arguments;
  const size_t first_named = node.parts.size() - node.names.size();
  for (size_t i = 1; i < node.parts.size(); ++i) {
    Value value = evaluate(*node.parts[i], scope);
    if (i < first_named) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(node.names[i - first_named], std::move(value));
    }
  }
  return arguments;
}

Value Renderer::evaluate_dict(const Expression& node, Scope& scope) {
  Value::Pairs pairs;
  for (size_t i = 0; i < node.parts.size(); i += 2) {
    Value key = evaluate(*node.parts[i], scope);
    pairs.emplace_back(std::move(key), evaluate(*node.parts[i + 1], scope));
  }
  return Value::dict(pairs);
}

Value Renderer::evaluate_item(const Expression& node, Scope& scope) {
  const Value self = evaluate(*node.parts[0], scope);
  return item_of(self, evaluate(*node.parts[1], scope));
}

Value Renderer::evaluate_compare(const Expression& node, Scope& scope) {
  Value left = evaluate(*node.parts[0], scope);
  for (size_t i = 0; i < node.names.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1], scope);
    const std::string& name = node.names[i];
    bool holds = false;
    if (name == "==") holds = equal(left, right);
    if (name == "!=") holds = !equal(left, right);
    if (name == "<") holds = less(left, right);
    if (name == ">") holds = less(right, left);
    if (name == "<=") holds = less(left, right) || equal(left, right);
    if (name == ">=") holds = less(right, left) || equal(left, right);
    if (name == "in") holds = contains(right, left);
    if (name == "not in") holds = !contains(right, left);
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Renderer::evaluate_slice(const Expression& node, Scope& scope) {
  const Value self = evaluate(*node.parts[0], scope);
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!node.parts[i + 1]) continue;
    const Value bound = evaluate(*node.parts[i + 1], scope);
    if (bound.is(Value::Kind::kInt) || bound.is(Value::Kind::kBool)) {
      bounds[i] = bound.integer();
    } else if (!bound.is(Value::Kind::kNone)) {
      fail(fmt::format("line {}: a slice takes whole numbers, not {}", node.line,
                       bound.type_name()));
    }
  }
  if (self.is_undefined()) fail(fmt::format("'{}' is undefined", self.undefined_name()));
  if (!self.is_string() && !self.is(Value::Kind::kList)) return Undefined{"a slice"};
  const int64_t step = bounds[2].value_or(1);
  if (self.is_string()) return slice_characters(self.text(), bounds[0], bounds[1], step);
  Value::Items taken;
  for (const size_t i : slice_indices(self.items().size(), bounds[0], bounds[1], step))
    taken.push_back(self.items()[i]);
  return Value::list(std::move(taken), self.is_tuple());
}

}  // namespace fovea::jinja
