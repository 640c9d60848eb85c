// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "language/template/parser.h"

namespace fovea::jinja {

using Kind = Statement::Kind;

void Parser::expect_end(Token::Kind kind) {
  if (current().kind != kind) wrong("the end of the tag");
  take();
}

Body Parser::body(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  Body body;
  while (current().kind != Token::Kind::kEnd) {
    const Token token = take();
    if (token.kind == Token::Kind::kText) {
      body.push_back({Kind::kText, token.line, token.text, {}, {}, {}});
    } else if (token.kind == Token::Kind::kVariableBegin) {
      Statement output{Kind::kOutput, token.line, "", {}, {}, {}};
      output.expressions.push_back(tuple());
      expect_end(Token::Kind::kVariableEnd);
      body.push_back(std::move(output));
    } else {
      if (std::any_of(ends.begin(), ends.end(), [this](auto end) { return at_name(end); }))
        return body;
      Statement one = statement();
      one.line = token.line;
      expect_end(Token::Kind::kBlockEnd);
      body.push_back(std::move(one));
    }
  }
  if (ends.size() > 0) wrong(fmt::format("{{% {} %}}", *(ends.end() - 1)));
  return body;
}

Body Parser::block(std::string_view end) {
  expect_end(Token::Kind::kBlockEnd);
  Body inner = body({end});
  take();
  return inner;
}

Statement Parser::statement() {
  const std::string name = expect_name();
  if (name == "if") return parse_if();
  if (name == "for") return parse_for();
  if (name == "set") return parse_set();
  if (name == "macro") return parse_macro();
  if (name == "filter") return parse_filter_block();
  if (name == "break") return {Kind::kBreak, 0, "", {}, {}, {}};
  if (name == "continue") return {Kind::kContinue, 0, "", {}, {}, {}};
  if (name == "generation") {  // marks what a model is trained on; nothing to do here
    Statement scope{Kind::kScope, 0, "", {}, {}, {}};
    scope.bodies.push_back(block("endgeneration"));
    return scope;
  }
  fail(
      fmt::format("line {}: the tag {{% {} %}} is not known; templates of chats use if, for, set, "
                  "macro, filter, generation, break and continue",
                  current().line, name.substr(0, 40)));
}

Statement Parser::parse_if() {
  Statement node{Kind::kIf, 0, "", {}, {}, {}};
  while (true) {
    node.expressions.push_back(tuple(false));
    expect_end(Token::Kind::kBlockEnd);
    node.bodies.push_back(body({"elif", "else", "endif"}));
    const std::string end = expect_name();
    if (end == "elif") continue;
    if (end == "else") node.bodies.push_back(block("endif"));
    return node;
  }
}

std::vector<std::string> Parser::names() {
  std::vector<std::string> all;
  const bool in_brackets = skip_operator("(");
  do all.push_back(expect_name());
  while (skip_operator(",") && current().kind == Token::Kind::kName && !at_name("in"));
  if (in_brackets) expect_operator(")");
  return all;
}

Statement Parser::parse_for() {
  Statement node{Kind::kFor, 0, "", names(), {}, {}};
  if (!skip_name("in")) wrong("'in'");
  node.expressions.push_back(tuple(false));
  node.expressions.push_back(skip_name("if") ? expression() : nullptr);
  if (at_name("recursive")) wrong("the end of the tag; recursive loops are not known");
  expect_end(Token::Kind::kBlockEnd);
  node.bodies.push_back(body({"else", "endfor"}));
  node.bodies.push_back(expect_name() == "else" ? block("endfor") : Body());
  return node;
}

Statement Parser::parse_set() {
  Statement node{Kind::kSet, 0, "", names(), {}, {}};
  if (node.names.size() == 1 && skip_operator(".")) node.name = expect_name();
  if (skip_operator("=")) {
    node.expressions.push_back(tuple());
    return node;
  }
  node.kind = Kind::kSetBlock;
  ExpressionPtr filter_chain;
  while (skip_operator("|")) {
    if (!filter_chain) filter_chain = make(Expression::Kind::kName, kBlockText);
    filter_chain = filter(std::move(filter_chain));
  }
  node.expressions.push_back(std::move(filter_chain));
  node.bodies.push_back(block("endset"));
  return node;
}

Statement Parser::parse_macro() {
  Statement node{Kind::kMacro, 0, expect_name(), {}, {}, {}};
  expect_operator("(");
  while (!at_operator(")")) {
    node.names.push_back(expect_name());
    if (skip_operator("=")) {
      node.expressions.push_back(expression());
    } else if (!node.expressions.empty()) {
      wrong("a default, as the parameter before has one");
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
  node.bodies.push_back(block("endmacro"));
  return node;
}

Statement Parser::parse_filter_block() {
  Statement node{Kind::kFilter, 0, "", {}, {}, {}};
  ExpressionPtr chain = make(Expression::Kind::kName, kBlockText);
  do chain = filter(std::move(chain));
  while (skip_operator("|"));
  node.expressions.push_back(std::move(chain));
  node.bodies.push_back(block("endfilter"));
  return node;
}

Body parse(std::string_view source) { return Parser(tokenize(source)).body({}); }

}  // namespace fovea::jinja
