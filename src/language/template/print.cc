// SPDX-License-Identifier: Apache-2.0
// Values as text: str(), repr() and JSON, as Python writes them.
#include <algorithm>

#include "language/template/text.h"
#include "language/template/value.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;

// Containers may share their parts, so a small value can print without end.
void append(std::string& out, std::string_view text) {
  out += text;
  Budget::check_text(out.size());
}

void append_repr(std::string& out, const Value& value) {
  if (value.is_string()) return append(out, repr_quoted(value.text()));
  if (value.is(Kind::kList)) {
    append(out, value.is_tuple() ? "(" : "[");
    for (size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0) append(out, ", ");
      append_repr(out, value.items()[i]);
    }
    if (value.is_tuple()) return append(out, value.items().size() == 1 ? ",)" : ")");
    return append(out, "]");
  }
  if (value.is(Kind::kDict)) {
    append(out, "{");
    for (size_t i = 0; i < value.pairs().size(); ++i) {
      append(out, (i > 0 ? ", " : "") + to_repr(value.pairs()[i].first) + ": ");
      append_repr(out, value.pairs()[i].second);
    }
    return append(out, "}");
  }
  append(out, value.is_undefined() ? "Undefined" : to_text(value));
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {
    separator_ =
        style.item_separator.empty() ? (style.indent < 0 ? ", " : ",") : style.item_separator;
  }

  std::string write(const Value& value) {
    add(value, 0);
    return std::move(out_);
  }

 private:
  void line(int depth) {
    if (style_.indent >= 0) append(out_, "\n" + repeat(" ", int64_t{style_.indent} * depth));
  }

  void add(const Value& value, int depth) {
    switch (value.kind()) {
      case Kind::kNone:
        return append(out_, "null");
      case Kind::kBool:
        return append(out_, value.boolean() ? "true" : "false");
      case Kind::kInt:
        return append(out_, std::to_string(value.integer()));
      case Kind::kFloat:
        return append(out_, number(value.number()));
      case Kind::kString:
        return append(out_, json_quoted(value.text(), style_.ascii));
      case Kind::kList:
        return add_list(value.items(), depth);
      case Kind::kDict:
        return add_dict(value.pairs(), depth);
      default:
        fail(std::string("tojson is not for ") + value.type_name());
    }
  }

  static std::string number(double value) {
    std::string text = number_text(value);
    if (text == "nan") return "NaN";
    if (text == "inf" || text == "-inf") return text == "inf" ? "Infinity" : "-Infinity";
    return text;
  }

  // Keys that are no texts become some, as JSON writes them.
  static std::string key(const Value& value) {
    return value.is_string() ? value.text() : to_json(value, {});
  }

  void add_list(const Value::Items& items, int depth) {
    if (items.empty()) return append(out_, "[]");
    append(out_, "[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) append(out_, separator_);
      line(depth + 1);
      add(items[i], depth + 1);
    }
    line(depth);
    append(out_, "]");
  }

  void add_dict(Value::Pairs pairs, int depth) {
    if (pairs.empty()) return append(out_, "{}");
    if (style_.sort_keys)
      std::sort(pairs.begin(), pairs.end(),
                [](const auto& a, const auto& b) { return key(a.first) < key(b.first); });
    append(out_, "{");
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (i > 0) append(out_, separator_);
      line(depth + 1);
      append(out_, json_quoted(key(pairs[i].first), style_.ascii) + style_.key_separator);
      add(pairs[i].second, depth + 1);
    }
    line(depth);
    append(out_, "}");
  }

  const JsonStyle& style_;
  std::string separator_;
  std::string out_;
};

}  // namespace

std::string to_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.boolean() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.integer());
    case Kind::kFloat:
      return number_text(value.number());
    case Kind::kString:
      return value.text();
    case Kind::kList:
    case Kind::kDict:
      return to_repr(value);
    default:
      fail(std::string("a ") + value.type_name() + " has no text");
  }
}

std::string to_repr(const Value& value) {
  std::string out;
  append_repr(out, value);
  return out;
}

std::string to_json(const Value& value, const JsonStyle& style) {
  return JsonWriter(style).write(value);
}

}  // namespace fovea::jinja
