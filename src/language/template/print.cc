// SPDX-License-Identifier: Apache-2.0
// Values as text: str(), repr() and JSON, as Python writes them.
#include <algorithm>

#include "language/template/text.h"
#include "language/template/value.h"

namespace fovea::jinja {
namespace {

using Kind = Value::Kind;

void append_repr(Text& out, const Value& value) {
  Budget::spend(1);
  if (value.is_string()) return append_repr(out, value.text());
  if (value.is(Kind::kList)) {
    out.append(value.is_tuple() ? "(" : "[");
    for (size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0) out.append(", ");
      append_repr(out, value.items()[i]);
    }
    if (value.is_tuple()) return out.append(value.items().size() == 1 ? ",)" : ")");
    return out.append("]");
  }
  if (value.is(Kind::kDict)) {
    out.append("{");
    for (size_t i = 0; i < value.pairs().size(); ++i) {
      if (i > 0) out.append(", ");
      append_repr(out, value.pairs()[i].first);
      out.append(": ");
      append_repr(out, value.pairs()[i].second);
    }
    return out.append("}");
  }
  out.append(value.is_undefined() ? Text("Undefined") : to_text(value));
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {
    separator_ =
        style.item_separator.empty() ? Text(style.indent < 0 ? ", " : ",") : style.item_separator;
  }

  Text write(const Value& value) {
    add(value, 0);
    return std::move(out_);
  }

 private:
  void line(int depth) {
    if (style_.indent < 0) return;
    out_.append("\n");
    out_.append(repeat(Text(" "), int64_t{style_.indent} * depth));
  }

  void add(const Value& value, int depth) {
    Budget::spend(1);
    switch (value.kind()) {
      case Kind::kNone:
        return out_.append("null");
      case Kind::kBool:
        return out_.append(value.boolean() ? "true" : "false");
      case Kind::kInt:
        return out_.append(std::to_string(value.integer()));
      case Kind::kFloat:
        return out_.append(number(value.number()));
      case Kind::kString:
        return append_json(out_, value.text(), style_.ascii);
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
  static Text key(const Value& value) {
    return value.is_string() ? value.text() : to_json(value, {});
  }

  void add_list(const Value::Items& items, int depth) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(separator_);
      line(depth + 1);
      add(items[i], depth + 1);
    }
    line(depth);
    out_.append("]");
  }

  void add_dict(const Value::Pairs& pairs, int depth) {
    if (pairs.empty()) return out_.append("{}");
    Budget::spend(pairs.size());
    std::vector<std::pair<Text, const Value*>, Counted<std::pair<Text, const Value*>>> written;
    for (const auto& [name, value] : pairs) written.emplace_back(key(name), &value);
    if (style_.sort_keys)
      std::sort(written.begin(), written.end(), [](const auto& a, const auto& b) {
        return CountedLess()(a.first.view(), b.first.view());
      });
    out_.append("{");
    for (size_t i = 0; i < written.size(); ++i) {
      if (i > 0) out_.append(separator_);
      line(depth + 1);
      append_json(out_, written[i].first, style_.ascii);
      out_.append(style_.key_separator);
      add(*written[i].second, depth + 1);
    }
    line(depth);
    out_.append("}");
  }

  const JsonStyle& style_;
  Text separator_;
  Text out_;
};

}  // namespace

Text to_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kNone:
      return Text("None");
    case Kind::kBool:
      return Text(value.boolean() ? "True" : "False");
    case Kind::kInt:
      return Text(std::to_string(value.integer()));
    case Kind::kFloat:
      return Text(number_text(value.number()));
    case Kind::kString:
      return value.text();
    case Kind::kList:
    case Kind::kDict:
      return to_repr(value);
    default:
      fail(std::string("a ") + value.type_name() + " has no text");
  }
}

Text to_repr(const Value& value) {
  Text out;
  append_repr(out, value);
  return out;
}

Text to_json(const Value& value, const JsonStyle& style) { return JsonWriter(style).write(value); }

}  // namespace fovea::jinja
