// SPDX-License-Identifier: Apache-2.0
// The functions of every template: range, namespace, dict, raise_exception, strftime_now.
#include <fmt/format.h>

#include <array>
#include <ctime>

#include "language/template/renderer.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;

constexpr int64_t kMaxRange = 100'000;  // Jinja's own limit

Value range(const Arguments& arguments) {
  const Value::Items& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty())
    fail("range takes one to three numbers");
  int64_t bounds[3] = {0, 0, 1};
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].is(Kind::kInt) && !given[i].is(Kind::kBool))
      fail(std::string("range takes whole numbers, not ") + given[i].type_name());
    bounds[given.size() == 1 ? 1 : i] = given[i].integer();
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) fail("range takes a step that is not 0");
  Value::Items numbers;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(numbers.size()) >= kMaxRange)
      fail(fmt::format("range gives at most {} numbers", kMaxRange));
    numbers.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  Budget::spend(numbers.size());
  return Value::list(std::move(numbers));
}

// The pairs of one dict, then those given by name.
Value::Pairs pairs_of(std::string_view function, const Arguments& arguments) {
  Value::Pairs pairs;
  const Value::Items& given = arguments.positional;
  if (given.size() > 1 || (given.size() == 1 && !given[0].is(Kind::kDict)))
    fail(fmt::format("{} takes one dict, and names", function));
  if (given.size() == 1) pairs = given[0].pairs();
  Budget::spend(pairs.size() + arguments.named.size());
  for (const auto& [name, value] : arguments.named) pairs.emplace_back(name, value);
  return pairs;
}

Value make_namespace(const Arguments& arguments) {
  auto data = std::make_shared<NamespaceData>();
  const Value plain = Value::dict(pairs_of("namespace", arguments));
  for (const auto& [name, value] : plain.pairs())
    data->values.insert_or_assign(String(to_text(name).view()), value);
  return data;
}

Value now(const Arguments& arguments) {
  const Value format = arguments.bind("strftime_now", {"format"})[0];
  constexpr size_t kMostBytes = 200;
  if (!format.is_string() || format.view().size() > kMostBytes)
    fail(fmt::format("strftime_now takes a format of at most {} characters", kMostBytes));
  Budget::spend(10 * (1 + format.view().size()));  // a field takes about a quarter of a microsecond
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 512> text{};
  const std::string pattern(format.view());
  const size_t size = std::strftime(text.data(), text.size(), pattern.c_str(), &local);
  return Text({text.data(), size},
              format.text().any_by_people() ? SourcedText::kPeople : SourcedText::kTemplate);
}

}  // namespace

bool is_function(std::string_view name) {
  return name == "range" || name == "namespace" || name == "dict" || name == "raise_exception" ||
         name == "strftime_now";
}

Value call_function(std::string_view name, const Arguments& arguments) {
  if (name == "range") return range(arguments);
  if (name == "namespace") return make_namespace(arguments);
  if (name == "dict") return Value::dict(pairs_of("dict", arguments));
  if (name == "strftime_now") return now(arguments);
  const Value message = arguments.bind("raise_exception", {"message"})[0];
  fail("it says: " + std::string(to_text(message).view().substr(0, 500)));
}

}  // namespace fovea::jinja
