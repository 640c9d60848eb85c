// SPDX-License-Identifier: Apache-2.0
// The grammar of expressions is Jinja's: a or b, a and b, not a, a < b in c, a + b, a ~ b, a * b,
// a ** b, -a, a.b[c](d) | filter is test.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "language/template/parser.h"

namespace fovea::jinja {

using Kind = Expression::Kind;

bool Parser::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  take();
  return true;
}

bool Parser::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  take();
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) wrong(fmt::format("'{}'", text));
}

std::string Parser::expect_name() {
  if (current().kind != Token::Kind::kName) wrong("a name");
  return take().text;
}

void Parser::wrong(const std::string& expected) const {
  std::string found = current().text.substr(0, 40);
  std::replace(found.begin(), found.end(), '\n', ' ');
  fail(fmt::format("line {}: expected {}, found {}", current().line, expected,
                   found.empty() ? "the end of a tag" : "'" + found + "'"));
}

ExpressionPtr Parser::make(Kind kind, std::string name) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = current().line;
  node->name = std::move(name);
  return node;
}

void Parser::adopt(Expression& parent, ExpressionPtr part) {
  if (part) parent.depth = std::max(parent.depth, part->depth + 1);
  parent.parts.push_back(std::move(part));
  if (parent.depth > Budget::kMaxDepth) fail("an expression is nested too deep");
}

ExpressionPtr Parser::tuple(bool with_choice) {
  const auto is_end = [this] {
    const Token& token = current();
    return token.kind == Token::Kind::kVariableEnd || token.kind == Token::Kind::kBlockEnd ||
           at_operator(")");
  };
  ExpressionPtr all = make(Kind::kTuple);
  while (!is_end()) {
    ExpressionPtr one = with_choice ? expression() : parse_or();
    if (all->parts.empty() && !at_operator(",")) return one;
    adopt(*all, std::move(one));
    if (!skip_operator(",")) break;
  }
  if (all->parts.empty() && !at_operator(")")) wrong("an expression");
  return all;
}

ExpressionPtr Parser::expression() {
  const Nesting nesting(*this);
  ExpressionPtr value = parse_or();
  while (at_name("if")) {
    ExpressionPtr choice = make(Kind::kChoice);
    take();
    adopt(*choice, parse_or());
    adopt(*choice, std::move(value));
    adopt(*choice, skip_name("else") ? expression() : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr left = parse_and();
  while (at_name("or")) {
    ExpressionPtr node = make(Kind::kOr);
    take();
    adopt(*node, std::move(left));
    adopt(*node, parse_and());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr left = parse_not();
  while (at_name("and")) {
    ExpressionPtr node = make(Kind::kAnd);
    take();
    adopt(*node, std::move(left));
    adopt(*node, parse_not());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::parse_not() {
  const Nesting nesting(*this);
  if (!at_name("not")) return compare();
  ExpressionPtr node = make(Kind::kNot);
  take();
  adopt(*node, parse_not());
  return node;
}

ExpressionPtr Parser::compare() {
  static constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<=", ">=", "<", ">"};
  ExpressionPtr left = sum();
  ExpressionPtr node = make(Kind::kCompare);
  while (true) {
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                     [this](auto text) { return at_operator(text); });
    if (found != kOperators.end()) {
      node->names.emplace_back(*found);
    } else if (at_name("in")) {
      node->names.emplace_back("in");
    } else if (at_name("not") && following().is(Token::Kind::kName, "in")) {
      node->names.emplace_back("not in");
      take();
    } else {
      break;
    }
    take();
    if (node->parts.empty()) adopt(*node, std::move(left));
    adopt(*node, sum());
  }
  return node->parts.empty() ? std::move(left) : std::move(node);
}

ExpressionPtr Parser::chain(ExpressionPtr (Parser::*operand)(),
                            std::initializer_list<std::string_view> operators) {
  ExpressionPtr left = (this->*operand)();
  while (std::any_of(operators.begin(), operators.end(),
                     [this](auto text) { return at_operator(text); })) {
    ExpressionPtr node = make(Kind::kArithmetic, current().text);
    take();
    adopt(*node, std::move(left));
    adopt(*node, (this->*operand)());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::sum() { return chain(&Parser::concat, {"+", "-"}); }
ExpressionPtr Parser::product() { return chain(&Parser::power, {"*", "/", "//", "%"}); }

ExpressionPtr Parser::concat() {
  ExpressionPtr first = product();
  if (!at_operator("~")) return first;
  ExpressionPtr node = make(Kind::kConcat);
  adopt(*node, std::move(first));
  while (skip_operator("~")) adopt(*node, product());
  return node;
}

ExpressionPtr Parser::power() {
  ExpressionPtr left = unary();
  while (at_operator("**")) {
    ExpressionPtr node = make(Kind::kArithmetic, "**");
    take();
    adopt(*node, std::move(left));
    adopt(*node, unary());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  ExpressionPtr node;
  if (at_operator("-") || at_operator("+")) {
    node = make(at_operator("-") ? Kind::kNegative : Kind::kPositive);
    take();
    adopt(*node, unary(false));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::primary() {
  ExpressionPtr node = make(Kind::kConstant);
  const Token token = take();
  switch (token.kind) {
    case Token::Kind::kName:
      if (token.text == "true" || token.text == "True") {
        node->value = true;
      } else if (token.text == "false" || token.text == "False") {
        node->value = false;
      } else if (token.text == "none" || token.text == "None") {
        node->value = None{};
      } else {
        node->kind = Kind::kName;
        node->name = token.text;
      }
      return node;
    case Token::Kind::kString: {
      std::string text = token.text;
      while (current().kind == Token::Kind::kString) text += take().text;
      node->value = text;
      return node;
    }
    case Token::Kind::kInteger: {
      int64_t number = 0;
      const char* const end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, number).ec != std::errc())
        fail(fmt::format("line {}: the number {} is too large", token.line,
                         token.text.substr(0, 40)));
      node->value = number;
      return node;
    }
    case Token::Kind::kFloat:
      node->value = std::strtod(token.text.c_str(), nullptr);
      return node;
    default:
      break;
  }
  if (token.text == "(") {
    node = tuple();
    expect_operator(")");
    return node;
  }
  const bool is_list = token.text == "[";
  if (token.kind != Token::Kind::kOperator || (!is_list && token.text != "{")) {
    --at_;
    wrong("an expression");
  }
  const std::string_view end = is_list ? "]" : "}";
  node->kind = is_list ? Kind::kList : Kind::kDict;
  while (!at_operator(end)) {
    adopt(*node, expression());
    if (!is_list) {
      expect_operator(":");
      adopt(*node, expression());
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(end);
  return node;
}

}  // namespace fovea::jinja
