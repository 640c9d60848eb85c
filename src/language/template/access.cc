// SPDX-License-Identifier: Apache-2.0
// a.b, a[b], a + b: what values do with one another.
#include <fmt/format.h>

#include <cmath>

#include "language/template/renderer.h"
#include "language/template/text.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;

// The item at a place, counted from the end where it is negative; undefined outside.
Value at_place(const Value::Items& items, int64_t index) {
  const auto count = static_cast<int64_t>(items.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) return Undefined{"an item outside"};
  return items[static_cast<size_t>(index)];
}

Value character_of(const Text& text, int64_t index) {
  const auto count = static_cast<int64_t>(count_characters(text.view()));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return Undefined{"an item outside"};
  const size_t begin = character_at(text.view(), static_cast<size_t>(index));
  return text.slice(begin, character_at(text.view().substr(begin), 1));
}

Value loop_attribute(const LoopData& loop, std::string_view name) {
  const auto count = static_cast<int64_t>(loop.items->size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  if (name == "previtem" && index > 0) return (*loop.items)[loop.index - 1];
  if (name == "nextitem" && index + 1 < count) return (*loop.items)[loop.index + 1];
  return Undefined{name};
}

[[noreturn]] void no_operation(const Value& a, char operation, const Value& b) {
  if (a.is_undefined()) fail(fmt::format("'{}' is undefined", a.undefined_name()));
  if (b.is_undefined()) fail(fmt::format("'{}' is undefined", b.undefined_name()));
  fail(fmt::format("'{}' is not for {} and {}", operation, a.type_name(), b.type_name()));
}

double float_arithmetic(double a, char operation, double b) {
  switch (operation) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '^':
      return std::pow(a, b);
    default:
      break;
  }
  if (b == 0) fail("a division by zero");
  if (operation == '/') return a / b;
  if (operation == '_') return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// a ** b of whole numbers, b >= 0.
int64_t whole_power(int64_t a, int64_t b) {
  int64_t result = 1;
  for (; b > 0 && a != 1; --b) {
    if (__builtin_mul_overflow(result, a, &result)) fail("a number is too large");
    if (result == 0 || (a == -1 && b % 2 == 1)) break;
  }
  return result;
}

Value whole_arithmetic(int64_t a, char operation, int64_t b) {
  int64_t result = 0;
  bool too_large = false;
  switch (operation) {
    case '+':
      too_large = __builtin_add_overflow(a, b, &result);
      break;
    case '-':
      too_large = __builtin_sub_overflow(a, b, &result);
      break;
    case '*':
      too_large = __builtin_mul_overflow(a, b, &result);
      break;
    case '_':
    case '%': {
      if (b == 0) fail("a division by zero");
      if (b == -1) return operation == '%' ? int64_t{0} : whole_arithmetic(0, '-', a);
      const bool below = a % b != 0 && (a < 0) != (b < 0);
      result = operation == '%' ? a % b + (below ? b : 0) : a / b - (below ? 1 : 0);
      break;
    }
    case '^':
      if (b >= 0) return whole_power(a, b);
      [[fallthrough]];
    default:
      return float_arithmetic(static_cast<double>(a), operation, static_cast<double>(b));
  }
  if (too_large) fail("a number is too large");
  return result;
}

}  // namespace

Value attribute_of(const Value& self, std::string_view name) {
  if (self.is_undefined()) fail(fmt::format("'{}' is undefined", self.undefined_name()));
  if (self.is(Kind::kLoop) && name != "cycle") return loop_attribute(self.loop(), name);
  if (has_method(self, name))
    return std::make_shared<const Callable>(Callable{nullptr, nullptr, std::string(name), self});
  if (self.is(Kind::kDict))
    if (const Value* found = self.find(name); found != nullptr) return *found;
  if (self.is(Kind::kNamespace)) {
    const auto& values = self.name_space().values;
    if (const auto found = values.find(name); found != values.end()) return found->second;
  }
  return Undefined{name};
}

Value item_of(const Value& self, const Value& key) {
  if (self.is_undefined()) fail(fmt::format("'{}' is undefined", self.undefined_name()));
  const bool whole = key.is(Kind::kInt) || key.is(Kind::kBool);
  if (self.is(Kind::kList) && whole) return at_place(self.items(), key.integer());
  if (self.is_string() && whole) return character_of(self.text(), key.integer());
  // An item goes before a method of the same name here; after a dot it is the other way round.
  if (self.is(Kind::kDict))
    if (const Value* found = self.find_key(key); found != nullptr) return *found;
  return key.is_string() ? attribute_of(self, key.view()) : Value(Undefined{"an item"});
}

Value arithmetic(const Value& a, char operation, const Value& b) {
  Budget::spend(a.cost() + b.cost());
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat))
      return float_arithmetic(a.number(), operation, b.number());
    return whole_arithmetic(a.integer(), operation, b.integer());
  }
  if (operation == '+' && a.is_string() && b.is_string()) {
    Text joined = a.text();
    joined.append(b.text());
    return joined;
  }
  if (operation == '+' && a.is(Kind::kList) && b.is(Kind::kList) && a.is_tuple() == b.is_tuple()) {
    Value::Items items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return Value::list(std::move(items), a.is_tuple());
  }
  const bool times = operation == '*';
  if (times && a.is_string() && b.is_number() && !b.is(Kind::kFloat))
    return repeat(a.text(), b.integer());
  if (times && b.is_string() && a.is_number() && !a.is(Kind::kFloat))
    return repeat(b.text(), a.integer());
  no_operation(a, operation, b);
}

}  // namespace fovea::jinja
