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
using Comparison = bool (*)(const Value& value, const Value& other, Budget& budget);

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

bool divides(const Value& value, const Value& other, Budget& /*unused*/) {
  if (whole(other) == 0) fail("a division by zero");
  return whole(other) == -1 || whole(value) % whole(other) == 0;
}

bool same(const Value& a, const Value& b, Budget& budget) {
  return a.kind() == b.kind() && equal(a, b, budget);
}

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
         return upper(to_text(v)) == to_text(v) && lower(to_text(v)) != to_text(v);
       }},
      {"lower",
       [](const Value& v) {
         return lower(to_text(v)) == to_text(v) && upper(to_text(v)) != to_text(v);
       }},
  };
  return kChecks;
}

const std::map<std::string_view, Comparison>& comparisons() {
  static const Comparison kLess = less;
  static const Comparison kGreater = [](const Value& a, const Value& b, Budget& budget) {
    return less(b, a, budget);
  };
  static const Comparison kAtMost = [](const Value& a, const Value& b, Budget& budget) {
    return less(a, b, budget) || equal(a, b, budget);
  };
  static const Comparison kAtLeast = [](const Value& a, const Value& b, Budget& budget) {
    return less(b, a, budget) || equal(a, b, budget);
  };
  static const Comparison kNotEqual = [](const Value& a, const Value& b, Budget& budget) {
    return !equal(a, b, budget);
  };
  static const Comparison kIn = [](const Value& a, const Value& b, Budget& budget) {
    return contains(b, a, budget);
  };
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

bool apply_test(const std::string& name, const Value& input, const Arguments& arguments,
                Budget& budget) {
  if (const auto found = checks().find(name); found != checks().end()) return found->second(input);
  if (const auto found = comparisons().find(name); found != comparisons().end())
    return found->second(input, arguments.bind(name, {"other"})[0], budget);
  fail(fmt::format("the test '{}' is not known", name));
}

}  // namespace fovea::jinja
