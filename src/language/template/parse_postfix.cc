// SPDX-License-Identifier: Apache-2.0
// What follows a value in an expression: .name, [item], [slice], (call), | filter, is test.
#include "language/template/parser.h"

namespace fovea::jinja {

using Kind = Expression::Kind;

ExpressionPtr Parser::call(ExpressionPtr callee) {
  ExpressionPtr node = make(Kind::kCall);
  adopt(*node, std::move(callee));
  arguments(*node);
  return node;
}

ExpressionPtr Parser::postfix(ExpressionPtr inner) {
  while (true) {
    if (at_operator(".") || at_operator("[")) {
      inner = subscript(std::move(inner));
    } else if (at_operator("(")) {
      inner = call(std::move(inner));
    } else {
      return inner;
    }
  }
}

ExpressionPtr Parser::filters(ExpressionPtr inner) {
  while (true) {
    if (at_operator("|")) {
      take();
      inner = filter(std::move(inner));
    } else if (at_name("is")) {
      take();
      inner = test(std::move(inner));
    } else if (at_operator("(")) {
      inner = call(std::move(inner));
    } else {
      return inner;
    }
  }
}

ExpressionPtr Parser::filter(ExpressionPtr input) {
  ExpressionPtr node = make(Kind::kFilter);
  node->name = expect_name();
  adopt(*node, std::move(input));
  if (at_operator("(")) arguments(*node);
  return node;
}

ExpressionPtr Parser::test(ExpressionPtr input) {
  const bool negated = skip_name("not");
  ExpressionPtr node = make(Kind::kTest);
  node->name = expect_name();
  adopt(*node, std::move(input));
  const Token::Kind kind = current().kind;
  const bool joins = at_name("else") || at_name("or") || at_name("and") || at_name("if");
  if (at_operator("(")) {
    arguments(*node);
  } else if ((kind == Token::Kind::kName && !joins) || kind == Token::Kind::kString ||
             kind == Token::Kind::kInteger || kind == Token::Kind::kFloat || at_operator("[") ||
             at_operator("{")) {
    if (at_name("is")) wrong("one test at a time");
    adopt(*node, postfix(primary()));
  }
  if (!negated) return node;
  ExpressionPtr opposite = make(Kind::kNot);
  adopt(*opposite, std::move(node));
  return opposite;
}

ExpressionPtr Parser::subscript(ExpressionPtr inner) {
  if (skip_operator(".")) {
    if (current().kind != Token::Kind::kInteger) {
      ExpressionPtr node = make(Kind::kAttribute, expect_name());
      adopt(*node, std::move(inner));
      return node;
    }
    ExpressionPtr node = make(Kind::kItem);
    adopt(*node, std::move(inner));
    adopt(*node, primary());
    return node;
  }
  expect_operator("[");
  ExpressionPtr node = make(Kind::kItem);
  adopt(*node, std::move(inner));
  const auto absent = [this] { return at_operator(":") || at_operator("]"); };
  ExpressionPtr first = absent() ? nullptr : expression();
  if (at_operator(":")) {
    node->kind = Kind::kSlice;
    adopt(*node, std::move(first));
    for (int i = 0; i < 2; ++i) {
      const bool given = skip_operator(":");
      adopt(*node, given && !absent() ? expression() : nullptr);
    }
  } else {
    if (!first) wrong("an expression");
    adopt(*node, std::move(first));
  }
  expect_operator("]");
  return node;
}

void Parser::arguments(Expression& call) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (at_operator("*") || at_operator("**")) wrong("plain arguments");
    if (current().kind == Token::Kind::kName && following().is(Token::Kind::kOperator, "=")) {
      call.names.push_back(take().text);
      take();
    } else if (!call.names.empty()) {
      wrong("an argument with its name");
    }
    adopt(call, expression());
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
}

}  // namespace fovea::jinja
