// SPDX-License-Identifier: Apache-2.0
// list | filter.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "language/template/filters.h"
#include "language/template/text.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;

// a.b.c of a value, as the filters' `attribute` names it; numbers are places in a list.
Value attribute_path(Value value, const Value& path) {
  if (path.is(Kind::kInt)) return item_of(value, path);
  const Text names = to_text(path);
  split(names.view(), ".", -1, [&](std::string_view name) {
    const bool number =
        !name.empty() && name.size() < 10 &&
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    value = number ? item_of(value, int64_t{std::stoi(std::string(name))}) : item_of(value, name);
  });
  return value;
}

// What is compared where case does not count.
Value folded(const Value& value, bool case_sensitive) {
  return value.is_string() && !case_sensitive ? Value(lower(value.text())) : value;
}

// Jinja's map and select take whatever counts as false, such as none, for an empty list.
Value::Items iterate_if_any(const Value& value) {
  return value.truthy() ? iterate(value) : Value::Items();
}

Value items_filter(const Value& input, const Arguments&, Renderer&) {
  if (input.is_undefined()) return Value::list({});
  if (!input.is(Kind::kDict)) fail(std::string("items is for a dict, not ") + input.type_name());
  return call_method(input, "items", {});
}

Value join_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind("join", {"d", "attribute"});
  const Text separator = to_text(given[0]);
  Text out;
  bool first = true;
  for (const Value& item : iterate(input)) {
    if (!first) out.append(separator);
    out.append(to_text(given[1].is_undefined() ? item : attribute_path(item, given[1])));
    first = false;
  }
  return out;
}

Value list_filter(const Value& input, const Arguments&, Renderer&) {
  return Value::list(iterate(input));
}

Value first_filter(const Value& input, const Arguments&, Renderer&) {
  if (input.is_string() && !input.text().empty()) return item_of(input, int64_t{0});
  const auto items = iterate(input);
  return items.empty() ? Value(Undefined{"the first item"}) : items.front();
}

Value last_filter(const Value& input, const Arguments&, Renderer&) {
  if (input.is_string() && !input.text().empty()) return item_of(input, int64_t{-1});
  const auto items = iterate(input);
  return items.empty() ? Value(Undefined{"the last item"}) : items.back();
}

Value reverse_filter(const Value& input, const Arguments&, Renderer&) {
  if (input.is_string()) return reversed(input.text());
  auto items = iterate(input);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

// Sorts by keys; stable, as Python's is.
Value::Items sorted(Value::Items items, const Value::Items& keys, bool backwards) {
  std::vector<size_t, Counted<size_t>> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    Budget::spend(1);
    return backwards ? less(keys[b], keys[a]) : less(keys[a], keys[b]);
  });
  Value::Items out;
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

Value sort_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind("sort", {"reverse", "case_sensitive", "attribute"});
  Value::Items items = iterate(input);
  Value::Items keys;
  for (const Value& item : items)
    keys.push_back(
        folded(given[2].is_undefined() ? item : attribute_path(item, given[2]), given[1].truthy()));
  return Value::list(sorted(std::move(items), keys, given[0].truthy()));
}

Value dictsort_filter(const Value& input, const Arguments& arguments, Renderer& renderer) {
  const auto given = arguments.bind("dictsort", {"case_sensitive", "by", "reverse"});
  const bool by_value = given[1].is_string() && given[1].view() == "value";
  Value::Items items = items_filter(input, {}, renderer).items();
  Value::Items keys;
  for (const Value& pair : items)
    keys.push_back(folded(pair.items()[by_value ? 1 : 0], given[0].truthy()));
  return Value::list(sorted(std::move(items), keys, given[2].truthy()));
}

Value unique_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind("unique", {"case_sensitive", "attribute"});
  std::set<String, CountedLess, Counted<String>> seen;
  Value::Items kept;
  for (const Value& item : iterate(input)) {
    const Value key = given[1].is_undefined() ? item : attribute_path(item, given[1]);
    if (seen.emplace(to_repr(folded(key, given[0].truthy())).view()).second) kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

template <bool kLargest>
Value extreme_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind(kLargest ? "max" : "min", {"case_sensitive", "attribute"});
  Value best = Undefined{"the least or largest item"};
  Value best_key;
  for (const Value& item : iterate(input)) {
    const Value key =
        folded(given[1].is_undefined() ? item : attribute_path(item, given[1]), given[0].truthy());
    const bool better =
        best.is_undefined() || (kLargest ? less(best_key, key) : less(key, best_key));
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return best;
}

Value sum_filter(const Value& input, const Arguments& arguments, Renderer&) {
  const auto given = arguments.bind("sum", {"attribute", "start"});
  Value total = given[1].is_undefined() ? Value(int64_t{0}) : given[1];
  for (const Value& item : iterate(input))
    total = arithmetic(total, '+',
                       given[0].is_undefined() || given[0].is(Kind::kNone)
                           ? item
                           : attribute_path(item, given[0]));
  return total;
}

// map(attribute="a", default=b), or map("filter", arguments...)
Value map_filter(const Value& input, const Arguments& arguments, Renderer& renderer) {
  Value::Items out;
  const Value::Items items = iterate_if_any(input);
  if (arguments.positional.empty()) {
    const auto given = arguments.bind("map", {"attribute", "default"});
    if (given[0].is_undefined()) fail("map takes a filter or an attribute");
    for (const Value& item : items) {
      const Value found = attribute_path(item, given[0]);
      out.push_back(found.is_undefined() ? given[1] : found);
    }
    return Value::list(std::move(out));
  }
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  const Text name = to_text(arguments.positional[0]);
  for (const Value& item : items) {
    Budget::spend(item.cost());
    out.push_back(apply_filter(name.view(), item, rest, renderer));
    Budget::spend(out.back().cost());
  }
  return Value::list(std::move(out));
}

// select("test", arguments...), selectattr("attribute", "test", arguments...); without a test, what
// counts as true. reject and rejectattr keep the others.
template <bool kByAttribute, bool kKeep>
Value select_filter(const Value& input, const Arguments& arguments, Renderer&) {
  Arguments rest = arguments;
  const auto take = [&rest] {
    Value first = rest.positional.empty() ? Value() : rest.positional.front();
    if (!rest.positional.empty()) rest.positional.erase(rest.positional.begin());
    return first;
  };
  const Value attribute = kByAttribute ? take() : Value();
  if (kByAttribute && attribute.is_undefined()) fail("selectattr takes an attribute");
  const Value test = take();
  const Text name = to_text(test);
  Value::Items kept;
  for (const Value& item : iterate_if_any(input)) {
    Budget::spend(1);
    const Value looked = kByAttribute ? attribute_path(item, attribute) : item;
    const bool holds =
        test.is_undefined() ? looked.truthy() : apply_test(name.view(), looked, rest);
    if (holds == kKeep) kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

}  // namespace

const std::map<std::string_view, Filter>& list_filters() {
  static const std::map<std::string_view, Filter> kFilters = {
      {"items", items_filter},
      {"join", join_filter},
      {"list", list_filter},
      {"first", first_filter},
      {"last", last_filter},
      {"reverse", reverse_filter},
      {"sort", sort_filter},
      {"dictsort", dictsort_filter},
      {"unique", unique_filter},
      {"max", extreme_filter<true>},
      {"min", extreme_filter<false>},
      {"sum", sum_filter},
      {"map", map_filter},
      {"select", select_filter<false, true>},
      {"reject", select_filter<false, false>},
      {"selectattr", select_filter<true, true>},
      {"rejectattr", select_filter<true, false>},
  };
  return kFilters;
}

}  // namespace fovea::jinja
