// SPDX-License-Identifier: Apache-2.0
// value | filter: those that look at one value. Filters of lists are in list_filters.cc.
#include "language/template/filters.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "language/template/text.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;

Value default_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind("default", {"default_value", "boolean"});
  const bool missing = input.is_undefined() || (given[1].truthy() && !input.truthy());
  if (!missing) return input;
  return given[0].is_undefined() ? Value("") : given[0];
}

Value trim_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const Value set = arguments.bind("trim", {"chars"})[0];
  const Text text = to_text(input);
  if (!set.is_string()) return text.slice(strip(text.view(), std::nullopt, true, true));
  return text.slice(strip(text.view(), set.view(), true, true));
}

Value length_filter(const Value& input, const Arguments&, Renderer&) {
  switch (input.kind()) {
    case Kind::kUndefined:
      return int64_t{0};
    case Kind::kString:
      return static_cast<int64_t>(count_characters(input.view()));
    case Kind::kList:
      return static_cast<int64_t>(input.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(input.pairs().size());
    default:
      fail(std::string("a ") + input.type_name() + " has no length");
  }
}

Value tojson_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given =
      arguments.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = given[0].truthy();
  if (given[1].is(Kind::kInt)) {
    if (given[1].integer() > 1000) fail("tojson takes an indent of at most 1000");
    style.indent = static_cast<int>(std::max<int64_t>(given[1].integer(), 0));
  }
  if (given[2].is(Kind::kList) && given[2].items().size() == 2) {
    style.item_separator = to_text(given[2].items()[0]);
    style.key_separator = to_text(given[2].items()[1]);
  }
  style.sort_keys = given[3].truthy();
  return to_json(input, style);
}

Value replace_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind("replace", {"old", "new", "count"});
  const int64_t max = given[2].is(Kind::kInt) ? given[2].integer() : -1;
  return replace(to_text(input), to_text(given[0]).view(), to_text(given[1]), max);
}

Value indent_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind("indent", {"width", "first", "blank"});
  Text space("    ");
  if (given[0].is_string()) space = given[0].text();
  if (given[0].is(Kind::kInt)) space = repeat(Text(" "), given[0].integer());
  Text text = to_text(input);
  text.append("\n");
  Text out;
  bool first = true;
  split_lines(text.view(), [&](std::string_view line) {
    if (!first) out.append("\n");
    if (first ? given[1].truthy() : given[2].truthy() || !line.empty()) out.append(space);
    out.append(text.slice(line));
    first = false;
  });
  return out;
}

Value int_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind("int", {"default", "base"});
  Value otherwise = given[0].is_undefined() ? Value(int64_t{0}) : given[0];
  double number = 0;
  if (input.is(Kind::kInt) || input.is(Kind::kBool)) return input.integer();
  if (input.is(Kind::kFloat)) {
    number = input.number();
  } else if (input.is_string()) {
    const std::string text(strip(input.view(), std::nullopt, true, true));
    char* end = nullptr;
    number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') return otherwise;
  } else {
    return otherwise;
  }
  if (!(std::fabs(number) < 9e18)) return otherwise;
  return static_cast<int64_t>(number);
}

Value float_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const Value otherwise = arguments.bind("float", {"default"})[0];
  if (input.is_number()) return input.number();
  if (input.is_string()) {
    const std::string text(input.view());
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0') return number;
  }
  return otherwise.is_undefined() ? Value(0.0) : otherwise;
}

Value abs_filter(const Value& input, const Arguments&, Renderer&) {
  const Value zero = int64_t{0};
  return less(input, zero) ? arithmetic(zero, '-', input) : input;
}

// "%s of %d" | format(a, b)
Value format_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const Text given = to_text(input);
  const std::string_view pattern = given.view();
  Text out;
  size_t next = 0;
  Budget::look_at(pattern.size());
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out.append(given, i, 1);
      continue;
    }
    const char style = i + 1 < pattern.size() ? pattern[++i] : ' ';
    if (style == '%') {
      out.append(given, i, 1);
      continue;
    }
    if (style != 's' && style != 'd' && style != 'r')
      fail(fmt::format("format knows %s, %d and %r, not %{}", style));
    if (next >= arguments.positional.size()) fail("format has more places than arguments");
    const Value& value = arguments.positional[next++];
    if (style == 'd' && !value.is_number()) fail("%d takes a number");
    if (style == 'd') {
      out.append(value.is(Kind::kFloat) ? fmt::format("{:.0f}", std::trunc(value.number()))
                                        : std::to_string(value.integer()));
    } else {
      out.append(style == 'r' ? to_repr(value) : to_text(value));
    }
  }
  return out;
}

template <Text (*kChange)(const Text&)>
Value text_filter(const Value& input, const Arguments&, Renderer&) {
  return kChange(to_text(input));
}

Value safe_filter(const Value& input, const Arguments&, Renderer&) { return input; }
Value string_filter(const Value& input, const Arguments&, Renderer&) { return to_text(input); }

}  // namespace

const std::map<std::string_view, Filter>& value_filters() {
  static const std::map<std::string_view, Filter> kFilters = {
      {"default", default_filter},   {"d", default_filter},
      {"trim", trim_filter},         {"length", length_filter},
      {"count", length_filter},      {"tojson", tojson_filter},
      {"replace", replace_filter},   {"indent", indent_filter},
      {"int", int_filter},           {"float", float_filter},
      {"abs", abs_filter},           {"format", format_filter},
      {"upper", text_filter<upper>}, {"lower", text_filter<lower>},
      {"title", text_filter<title>}, {"capitalize", text_filter<capitalize>},
      {"safe", safe_filter},         {"string", string_filter},
  };
  return kFilters;
}

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments,
                   Renderer& renderer) {
  for (const auto* filters : {&value_filters(), &list_filters()})
    if (const auto found = filters->find(name); found != filters->end())
      return found->second(input, arguments, renderer);
  fail(fmt::format("the filter '{}' is not known", name));
}

}  // namespace fovea::jinja
