// SPDX-License-Identifier: Apache-2.0
// The methods of texts, lists and dicts that leave them as they are, as Jinja's sandbox has it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "language/template/renderer.h"
#include "language/template/text.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;
using Method = Value (*)(const Value& self, const Arguments& arguments);

const Text& text_of(const Value& value, const char* method) {
  if (!value.is_string()) fail(fmt::format("{} takes a text, not {}", method, value.type_name()));
  return value.text();
}

// A text, or nothing for none and what is not given.
std::optional<std::string_view> optional_text(const Value& value, const char* method) {
  if (value.is_undefined() || value.is(Kind::kNone)) return std::nullopt;
  return text_of(value, method).view();
}

int64_t whole(const Value& value, int64_t otherwise, const char* method) {
  if (value.is_undefined()) return otherwise;
  if (!value.is(Kind::kInt) && !value.is(Kind::kBool))
    fail(fmt::format("{} takes a whole number, not {}", method, value.type_name()));
  return value.integer();
}

Value strip_by(const Value& self, const Arguments& arguments, bool left, bool right) {
  const Value set = arguments.bind("strip", {"chars"})[0];
  return self.text().slice(strip(self.view(), optional_text(set, "strip"), left, right));
}

// str.startswith and str.endswith take one text or a tuple of them.
template <class Holds>
Value any_affix(const Arguments& arguments, const char* method, const Holds& holds) {
  const Value given = arguments.bind(method, {"affix"})[0];
  const auto holds_one = [&](const Value& one) {
    Budget::look_at(text_of(one, method).size());
    return holds(one.view());
  };
  if (!given.is_tuple()) return Value(holds_one(given));
  return Value(std::any_of(given.items().begin(), given.items().end(), holds_one));
}

Value split_text(const Value& self, const Arguments& arguments) {
  const auto given = arguments.bind("split", {"sep", "maxsplit"});
  Value::Items parts;
  split(self.view(), optional_text(given[0], "split"), whole(given[1], -1, "split"),
        [&](std::string_view part) { parts.emplace_back(self.text().slice(part)); });
  return Value::list(std::move(parts));
}

Value split_lines_of(const Value& self, const Arguments& /*unused*/) {
  Value::Items lines;
  split_lines(self.view(),
              [&](std::string_view line) { lines.emplace_back(self.text().slice(line)); });
  return Value::list(std::move(lines));
}

Value replace_text(const Value& self, const Arguments& arguments) {
  const auto given = arguments.bind("replace", {"old", "new", "count"});
  return replace(self.text(), text_of(given[0], "replace").view(), text_of(given[1], "replace"),
                 whole(given[2], -1, "replace"));
}

Value join_texts(const Value& self, const Arguments& arguments) {
  Text out;
  bool first = true;
  for (const Value& part : iterate(arguments.bind("join", {"iterable"})[0])) {
    if (!first) out.append(self.text());
    out.append(text_of(part, "join"));
    first = false;
  }
  return out;
}

// "{} and {name}".format(...): fields without further style.
Value format_text(const Value& self, const Arguments& arguments) {
  const std::string_view pattern = self.view();
  Text out;
  size_t next = 0;
  Budget::look_at(pattern.size());
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const bool doubled = i + 1 < pattern.size() && pattern[i + 1] == c;
    if ((c != '{' && c != '}') || doubled) {
      out.append(self.text(), i, 1);
      if (c == '{' || c == '}') ++i;
      continue;
    }
    const size_t end = pattern.find('}', i);
    if (c == '}' || end == std::string_view::npos) fail("format has a single brace");
    std::string_view field = pattern.substr(i + 1, end - i - 1);
    if (field.ends_with(":d") || field.ends_with(":s")) field.remove_suffix(2);
    Budget::spend(1 + arguments.named.size());
    const bool numbered = field.size() < 4 && std::all_of(field.begin(), field.end(), [](char d) {
                            return d >= '0' && d <= '9';
                          });
    Value value;
    if (numbered) {
      const size_t place =
          field.empty() ? next++ : static_cast<size_t>(std::stoi(std::string(field)));
      if (place >= arguments.positional.size()) fail("format has more fields than arguments");
      value = arguments.positional[place];
    } else {
      const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto& pair) { return pair.first == field; });
      if (named == arguments.named.end())
        fail(fmt::format("format knows no field '{{{}}}'", field.substr(0, 40)));
      value = named->second;
    }
    out.append(to_text(value));
    i = end;
  }
  return out;
}

Value find_text(const Value& self, const Arguments& arguments) {
  const Value part = arguments.bind("find", {"sub"})[0];
  const size_t at = find(self.view(), text_of(part, "find").view());
  if (at == std::string_view::npos) return int64_t{-1};
  return static_cast<int64_t>(count_characters(self.view().substr(0, at)));
}

Value count_text(const Value& self, const Arguments& arguments) {
  const Value part = arguments.bind("count", {"sub"})[0];
  if (text_of(part, "count").empty())
    return static_cast<int64_t>(count_characters(self.view()) + 1);
  int64_t count = -1;
  split(self.view(), part.view(), -1, [&](std::string_view) { ++count; });
  return count;
}

template <class Each>
bool all_characters(std::string_view text, const Each& each) {
  return !text.empty() && std::all_of(text.begin(), text.end(), each);
}

const std::map<std::string_view, Method>& text_methods() {
  static const std::map<std::string_view, Method> kMethods = {
      {"strip", [](const Value& s, const Arguments& a) { return strip_by(s, a, true, true); }},
      {"lstrip", [](const Value& s, const Arguments& a) { return strip_by(s, a, true, false); }},
      {"rstrip", [](const Value& s, const Arguments& a) { return strip_by(s, a, false, true); }},
      {"startswith",
       [](const Value& s, const Arguments& a) {
         return any_affix(a, "startswith",
                          [&](std::string_view affix) { return s.view().starts_with(affix); });
       }},
      {"endswith",
       [](const Value& s, const Arguments& a) {
         return any_affix(a, "endswith",
                          [&](std::string_view affix) { return s.view().ends_with(affix); });
       }},
      {"split", split_text},
      {"splitlines", split_lines_of},
      {"replace", replace_text},
      {"join", join_texts},
      {"format", format_text},
      {"find", find_text},
      {"count", count_text},
      {"upper", [](const Value& s, const Arguments&) { return Value(upper(s.text())); }},
      {"lower", [](const Value& s, const Arguments&) { return Value(lower(s.text())); }},
      {"title", [](const Value& s, const Arguments&) { return Value(title(s.text())); }},
      {"capitalize", [](const Value& s, const Arguments&) { return Value(capitalize(s.text())); }},
      {"isdigit",
       [](const Value& s, const Arguments&) {
         return Value(all_characters(s.view(), [](char c) { return c >= '0' && c <= '9'; }));
       }},
  };
  return kMethods;
}

const std::map<std::string_view, Method>& dict_methods() {
  static const std::map<std::string_view, Method> kMethods = {
      {"get",
       [](const Value& self, const Arguments& arguments) {
         const auto given = arguments.bind("get", {"key", "default"});
         const Value* found = self.find_key(given[0]);
         if (found != nullptr) return *found;
         return arguments.positional.size() + arguments.named.size() > 1 ? given[1] : Value(None{});
       }},
      {"items",
       [](const Value& self, const Arguments&) {
         Value::Items items;
         for (const auto& [key, value] : self.pairs())
           items.push_back(Value::list({key, value}, true));
         return Value::list(std::move(items));
       }},
      {"keys",
       [](const Value& self, const Arguments&) {
         Value::Items items;
         for (const auto& [key, value] : self.pairs()) items.push_back(key);
         return Value::list(std::move(items));
       }},
      {"values",
       [](const Value& self, const Arguments&) {
         Value::Items items;
         for (const auto& [key, value] : self.pairs()) items.push_back(value);
         return Value::list(std::move(items));
       }},
  };
  return kMethods;
}

Value cycle(const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("cycle takes values to go through");
  return arguments.positional[self.loop().index % arguments.positional.size()];
}

// What would change a value; Jinja's sandbox forbids it.
bool changes(std::string_view name) {
  constexpr std::array kNames = {"append", "extend", "insert", "pop",        "remove", "reverse",
                                 "sort",   "clear",  "update", "setdefault", "popitem"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  if (self.is_string()) return text_methods().count(name) > 0;
  if (self.is(Kind::kDict)) return dict_methods().count(name) > 0 || changes(name);
  if (self.is(Kind::kLoop)) return name == "cycle";
  return self.is(Kind::kList) && (changes(name) || name == "index" || name == "count");
}

Value call_method(const Value& self, std::string_view name, const Arguments& arguments) {
  Budget::spend(self.cost());
  for (const Value& given : arguments.positional) Budget::spend(given.cost());
  if (self.is_string()) return text_methods().at(name)(self, arguments);
  if (self.is(Kind::kLoop)) return cycle(self, arguments);
  if (changes(name))
    fail(fmt::format("{} would change a {}, which templates may not do", name, self.type_name()));
  if (self.is(Kind::kDict)) return dict_methods().at(name)(self, arguments);
  const Value wanted = arguments.bind(name, {"value"})[0];
  int64_t count = 0;
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (!equal(self.items()[i], wanted)) continue;
    if (name == "index") return static_cast<int64_t>(i);
    ++count;
  }
  if (name == "index") fail("index finds no such item");
  return count;
}

}  // namespace fovea::jinja
