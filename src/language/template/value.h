// SPDX-License-Identifier: Apache-2.0
// What a template computes with: Python's values as far as chat templates see them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "language/template/budget.h"
#include "language/template/text.h"

namespace fovea::jinja {

struct Statement;
class Scope;
class Value;
struct ListData;
struct DictData;
struct NamespaceData;
struct Callable;
struct LoopData;

struct Undefined {
  Undefined() = default;
  explicit Undefined(std::string_view its_name) : name(its_name.substr(0, 64)) {}
  String name;  // for messages
};
struct None {};

class Value {
 public:
  enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,  // and tuple
    kDict,
    kNamespace,
    kCallable,
    kLoop
  };
  using Items = std::vector<Value, Counted<Value>>;
  using Pair = std::pair<Value, Value>;
  using Pairs = std::vector<Pair, Counted<Pair>>;

  Value() = default;
  Value(Undefined undefined) : data_(std::move(undefined)) {}  // NOLINT: implicit
  Value(None none) : data_(none) {}                            // NOLINT: implicit
  Value(bool flag) : data_(flag) {}                            // NOLINT: implicit
  Value(int64_t number) : data_(number) {}                     // NOLINT: implicit
  Value(double number) : data_(number) {}                      // NOLINT: implicit
  Value(Text text)                                             // NOLINT: implicit
      : data_(std::allocate_shared<const Text>(Counted<Text>(), std::move(text))) {}
  Value(std::string_view text) : Value(Text(text)) {}         // NOLINT: implicit; the template's
  Value(const std::string& text) : Value(Text(text)) {}       // NOLINT: implicit; the template's
  Value(const char* text) : Value(std::string_view(text)) {}  // NOLINT: implicit; the template's
  Value(std::shared_ptr<NamespaceData> data) : data_(std::move(data)) {}   // NOLINT: implicit
  Value(std::shared_ptr<const Callable> data) : data_(std::move(data)) {}  // NOLINT: implicit
  Value(std::shared_ptr<const LoopData> data) : data_(std::move(data)) {}  // NOLINT: implicit

  // Containers hold plain values alone: what refers to a scope or to itself stays outside.
  static Value list(Items items, bool is_tuple = false);
  static Value dict(const Pairs& pairs);  // of equal keys the last value counts
  // Its texts are by the template, or by people.
  static Value from_json(const nlohmann::ordered_json& json, char source = SourcedText::kTemplate);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_string() const { return is(Kind::kString); }
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat); }

  // The accessors expect the kind.
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const;  // of kInt and kBool
  double number() const;    // of any number
  const Text& text() const { return *std::get<5>(data_); }
  std::string_view view() const { return text().view(); }  // of a text
  const Items& items() const;
  bool is_tuple() const;
  const Pairs& pairs() const;
  NamespaceData& name_space() const { return *std::get<8>(data_); }
  const Callable& callable() const { return *std::get<9>(data_); }
  const LoopData& loop() const { return *std::get<10>(data_); }
  std::string_view undefined_name() const { return std::get<Undefined>(data_).name; }

  const Value* find(std::string_view key) const;  // in a dict; null: not there
  const Value* find_key(const Value& key) const;  // the same for any key
  const char* type_name() const;                  // as Python calls it
  bool truthy() const;
  int depth() const;          // of nested containers
  size_t cost() const;        // steps to look at it whole, one level deep
  size_t text_bytes() const;  // of all texts in it

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const ListData>, std::shared_ptr<const DictData>,
               std::shared_ptr<NamespaceData>, std::shared_ptr<const Callable>,
               std::shared_ptr<const LoopData>>
      data_;
};

struct ListData {
  Value::Items items;
  bool is_tuple = false;
  int depth = 1;
};
struct DictData {
  Value::Pairs pairs;
  int depth = 1;
};
// Names and their values.
using Names = std::map<String, Value, CountedLess, Counted<std::pair<const String, Value>>>;
struct NamespaceData {
  Names values;
};
struct LoopData {
  std::shared_ptr<const Value::Items> items;
  size_t index = 0;
};

// A macro with the scope it was made in, a global function, or a method with the value it is of.
struct Callable {
  const Statement* macro = nullptr;
  Scope* scope = nullptr;
  std::string name;
  Value self;
};

// As Python's ==, < and `in` see them.
bool equal(const Value& a, const Value& b);
bool less(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);

// What a for loop runs over: items, keys, characters; nothing for undefined.
Value::Items iterate(const Value& value);

Text to_text(const Value& value);  // str()
Text to_repr(const Value& value);  // repr()

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  int indent = -1;      // -1: on one line
  Text item_separator;  // empty: Python's choice
  Text key_separator = Text(": ");
};
Text to_json(const Value& value, const JsonStyle& style);

}  // namespace fovea::jinja
