// SPDX-License-Identifier: Apache-2.0
// value is test.
#include <fmt/format.h>

#include <map>

#include "language/template/renderer.h"
#include "language/template/text.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;
using Check = bool (*)(const Value& value);
using Comparison = bool (*)(const Value& value, const Value& other);

// What len() and [] are for; the sandbox counts undefined among them.
bool is_sequence(const Value& v) {
  return v.is_string() || v.is(Kind::kList) || v.is(Kind::kDict) || v.is_undefined();
}

bool is_whole(const Value& v) { return v.is(Kind::kInt) || v.is(Kind::kBool); }

int64_t whole(const Value& value) {
  if (!is_whole(value))
    fail(std::string("the test takes a whole number, not ") + value.type_name());
  return value.integer();
}

bool divides(const Value& value, const Value& other) {
  if (whole(other) == 0) fail("a division by zero");
  return whole(other) == -1 || whole(value) % whole(other) == 0;
}

bool same(const Value& a, const Value& b) { return a.kind() == b.kind() && equal(a, b); }

const std::map<std::string_view, Check>& checks() {
  static const std::map<std::string_view, Check> kChecks = {
      {"defined", [](const Value& v) { return !v.is_undefined(); }},
      {"undefined", [](const Value& v) { return v.is_undefined(); }},
      {"none", [](const Value& v) { return v.is(Kind::kNone); }},
      {"string", [](const Value& v) { return v.is_string(); }},
      {"number", [](const Value& v) { return v.is_number(); }},
      {"integer", [](const Value& v) { return v.is(Kind::kInt); }},
      {"float", [](const Value& v) { return v.is(Kind::kFloat); }},
      {"boolean", [](const Value& v) { return v.is(Kind::kBool); }},
      {"true", [](const Value& v) { return v.is(Kind::kBool) && v.boolean(); }},
      {"false", [](const Value& v) { return v.is(Kind::kBool) && !v.boolean(); }},
      {"mapping", [](const Value& v) { return v.is(Kind::kDict); }},
      {"sequence", is_sequence},
      {"iterable", [](const Value& v) { return is_sequence(v) || v.is(Kind::kLoop); }},
      {"callable", [](const Value& v) { return v.is(Kind::kCallable); }},
      {"odd", [](const Value& v) { return whole(v) % 2 != 0; }},
      {"even", [](const Value& v) { return whole(v) % 2 == 0; }},
      {"upper",
       [](const Value& v) {
         const Text text = to_text(v);
         return upper(text).view() == text.view() && lower(text).view() != text.view();
       }},
      {"lower",
       [](const Value& v) {
         const Text text = to_text(v);
         return lower(text).view() == text.view() && upper(text).view() != text.view();
       }},
  };
  return kChecks;
}

const std::map<std::string_view, Comparison>& comparisons() {
  static const Comparison kLess = less;
  static const Comparison kGreater = [](const Value& a, const Value& b) { return less(b, a); };
  static const Comparison kAtMost = [](const Value& a, const Value& b) {
    return less(a, b) || equal(a, b);
  };
  static const Comparison kAtLeast = [](const Value& a, const Value& b) {
    return less(b, a) || equal(a, b);
  };
  static const Comparison kNotEqual = [](const Value& a, const Value& b) { return !equal(a, b); };
  static const Comparison kIn = [](const Value& a, const Value& b) { return contains(b, a); };
  static const std::map<std::string_view, Comparison> kComparisons = {{"equalto", equal},
                                                                      {"eq", equal},
                                                                      {"==", equal},
                                                                      {"ne", kNotEqual},
                                                                      {"!=", kNotEqual},
                                                                      {"lt", kLess},
                                                                      {"<", kLess},
                                                                      {"lessthan", kLess},
                                                                      {"gt", kGreater},
                                                                      {">", kGreater},
                                                                      {"greaterthan", kGreater},
                                                                      {"le", kAtMost},
                                                                      {"<=", kAtMost},
                                                                      {"ge", kAtLeast},
                                                                      {">=", kAtLeast},
                                                                      {"in", kIn},
                                                                      {"sameas", same},
                                                                      {"divisibleby", divides}};
  return kComparisons;
}

}  // namespace

bool apply_test(std::string_view name, const Value& input, const Arguments& arguments) {
  if (const auto found = checks().find(name); found != checks().end()) return found->second(input);
  if (const auto found = comparisons().find(name); found != comparisons().end())
    return found->second(input, arguments.bind(name, {"other"})[0]);
  fail(fmt::format("the test '{}' is not known", name));
}

}  // namespace fovea::jinja
