// SPDX-License-Identifier: Apache-2.0
#include "language/template/value.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "language/template/text.h"
#include "language/tokenizer/unicode.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;

// What refers to a scope or to itself would outlive it, or never be freed.
void check_plain(const Value& value) {
  if (value.is(Kind::kNamespace) || value.is(Kind::kCallable) || value.is(Kind::kLoop))
    fail(std::string("a ") + value.type_name() + " cannot be kept in a list or dict");
}

int checked_depth(int depth) {
  if (depth > Budget::kMaxDepth / 4) fail("it nests lists too deep");
  return depth;
}

bool number_equal(const Value& a, const Value& b) {
  if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return a.number() == b.number();
  return a.integer() == b.integer();
}

bool items_equal(const Value::Items& a, const Value::Items& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [&](const Value& x, const Value& y) { return equal(x, y); });
}

bool dict_equal(const Value& a, const Value& b) {
  if (a.pairs().size() != b.pairs().size()) return false;
  return std::all_of(a.pairs().begin(), a.pairs().end(), [&](const auto& pair) {
    const Value* other = b.find_key(pair.first);
    return other != nullptr && equal(pair.second, *other);
  });
}

// The engine reads texts as valid UTF-8 without a further look.
Text valid(const std::string& text, char source) {
  return valid_utf8_prefix(text) == text.size() ? Text(text, source)
                                                : Text(replace_invalid_utf8(text), source);
}

}  // namespace

Value Value::list(Items items, bool is_tuple) {
  int depth = 1;
  for (const Value& item : items) {
    check_plain(item);
    depth = std::max(depth, item.depth() + 1);
  }
  Value value;
  value.data_ = std::allocate_shared<const ListData>(
      Counted<ListData>(), ListData{std::move(items), is_tuple, checked_depth(depth)});
  return value;
}

Value Value::dict(const Pairs& pairs) {
  DictData data;
  std::map<String, size_t, CountedLess, Counted<std::pair<const String, size_t>>> places;
  for (const auto& [key, item] : pairs) {
    if (key.kind() < Kind::kNone || key.kind() > Kind::kString)
      fail(std::string("a dict's keys are texts and numbers, not ") + key.type_name());
    check_plain(item);
    data.depth = checked_depth(std::max(data.depth, item.depth() + 1));
    const auto [place, is_new] = places.try_emplace(String(to_repr(key).view()), data.pairs.size());
    if (is_new) {
      data.pairs.emplace_back(key, item);
    } else {
      data.pairs[place->second].second = item;
    }
  }
  Value value;
  value.data_ = std::allocate_shared<const DictData>(Counted<DictData>(), std::move(data));
  return value;
}

Value Value::from_json(const nlohmann::ordered_json& json, char source) {
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return json.get<bool>();
    case nlohmann::json::value_t::number_integer:
      return json.get<int64_t>();
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<uint64_t>() <= INT64_MAX) return json.get<int64_t>();
      return json.get<double>();
    case nlohmann::json::value_t::number_float:
      return json.get<double>();
    case nlohmann::json::value_t::string:
      return valid(json.get_ref<const std::string&>(), source);
    case nlohmann::json::value_t::array: {
      Items items;
      for (const auto& item : json) items.push_back(from_json(item, source));
      return list(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      Pairs pairs;
      for (const auto& [key, item] : json.items())
        pairs.emplace_back(valid(key, source), from_json(item, source));
      return dict(pairs);
    }
    default:
      return None{};
  }
}

int64_t Value::integer() const {
  return is(Kind::kBool) ? static_cast<int64_t>(boolean()) : std::get<int64_t>(data_);
}

double Value::number() const {
  return is(Kind::kFloat) ? std::get<double>(data_) : static_cast<double>(integer());
}

const Value::Items& Value::items() const { return std::get<6>(data_)->items; }
bool Value::is_tuple() const { return is(Kind::kList) && std::get<6>(data_)->is_tuple; }
const Value::Pairs& Value::pairs() const { return std::get<7>(data_)->pairs; }

const Value* Value::find(std::string_view key) const {
  Budget::spend(1 + pairs().size() / 2);
  for (const auto& [name, value] : pairs()) {
    if (!name.is_string() || name.text().size() != key.size()) continue;
    Budget::look_at(key.size());
    if (name.view() == key) return &value;
  }
  return nullptr;
}

const Value* Value::find_key(const Value& key) const {
  if (key.is_string()) return find(key.view());
  Budget::spend(1 + pairs().size());
  for (const auto& [name, value] : pairs())
    if (equal(name, key)) return &value;
  return nullptr;
}

const char* Value::type_name() const {
  constexpr std::array kNames = {"undefined", "None", "bool",      "int",   "float", "str",
                                 "list",      "dict", "namespace", "macro", "loop"};
  return is_tuple() ? "tuple" : kNames[data_.index()];
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return number() != 0;
    case Kind::kString:
      return !text().empty();
    case Kind::kList:
      return !items().empty();
    case Kind::kDict:
      return !pairs().empty();
    default:
      return true;
  }
}

int Value::depth() const {
  if (is(Kind::kList)) return std::get<6>(data_)->depth;
  if (is(Kind::kDict)) return std::get<7>(data_)->depth;
  return 0;
}

size_t Value::cost() const {
  if (is_string()) return 1 + text().size() / 8;
  if (is(Kind::kList)) return 1 + items().size();
  if (is(Kind::kDict)) return 1 + pairs().size();
  return 1;
}

size_t Value::text_bytes() const {
  if (is_string()) return text().size();
  size_t bytes = 0;
  if (is(Kind::kList))
    for (const Value& item : items()) bytes += item.text_bytes();
  if (is(Kind::kDict))
    for (const auto& [key, item] : pairs()) bytes += key.text_bytes() + item.text_bytes();
  return bytes;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return number_equal(a, b);
  if (a.kind() != b.kind()) return false;
  Budget::spend(std::min(a.cost(), b.cost()));
  switch (a.kind()) {
    case Kind::kString:
      return a.view() == b.view();
    case Kind::kList:
      return a.is_tuple() == b.is_tuple() && items_equal(a.items(), b.items());
    case Kind::kDict:
      return dict_equal(a, b);
    case Kind::kNamespace:
      return &a.name_space() == &b.name_space();
    case Kind::kCallable:
      return &a.callable() == &b.callable();
    case Kind::kLoop:
      return &a.loop() == &b.loop();
    default:
      return true;  // undefined and none equal themselves
  }
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return a.is(Kind::kFloat) || b.is(Kind::kFloat) ? a.number() < b.number()
                                                    : a.integer() < b.integer();
  Budget::spend(std::min(a.cost(), b.cost()));
  if (a.is_string() && b.is_string()) return a.view() < b.view();
  if (a.is(Kind::kList) && b.is(Kind::kList)) {
    const size_t common = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < common; ++i)
      if (!equal(a.items()[i], b.items()[i])) return less(a.items()[i], b.items()[i]);
    return a.items().size() < b.items().size();
  }
  fail(std::string("'<' is not for ") + a.type_name() + " and " + b.type_name());
}

bool contains(const Value& container, const Value& item) {
  Budget::spend(container.cost());
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.is_string()) fail(std::string("'in' a text takes a text, not ") + item.type_name());
      return find(container.view(), item.view()) != std::string_view::npos;
    case Kind::kList:
      return std::any_of(container.items().begin(), container.items().end(),
                         [&](const Value& one) { return equal(one, item); });
    case Kind::kDict:
      return container.find_key(item) != nullptr;
    default:
      fail(std::string("'in' is not for ") + container.type_name());
  }
}

Value::Items iterate(const Value& value) {
  Budget::spend(value.is_string() ? value.text().size() : value.cost());
  Value::Items items;
  switch (value.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kString:
      for (size_t at = 0; at < value.text().size();) {
        const size_t bytes = read_code_point(value.view().data() + at).bytes;
        items.emplace_back(value.text().slice(at, bytes));
        at += bytes;
      }
      break;
    case Kind::kList:
      return value.items();
    case Kind::kDict:
      for (const auto& [key, unused] : value.pairs()) items.push_back(key);
      break;
    default:
      fail(std::string("a ") + value.type_name() + " has nothing to go through");
  }
  return items;
}

}  // namespace fovea::jinja
