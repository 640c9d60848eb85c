// SPDX-License-Identifier: Apache-2.0
// Tokens -> tree. Expressions are in parse_expression.cc, statements in parse_statement.cc.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "language/template/lexer.h"
#include "language/template/syntax.h"

namespace fovea::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Statements up to a block whose name is one of `ends`, which becomes the current token; without
  // ends, up to the end of the template.
  Body body(std::initializer_list<std::string_view> ends);

 private:
  // Statements
  Statement statement();
  Statement parse_if();
  Statement parse_for();
  Statement parse_set();
  Statement parse_macro();
  Statement parse_filter_block();
  Body block(std::string_view end);  // after a tag: its body, up to and with the name of its end
  std::vector<std::string> names();  // a, b, c

  // Expressions, from the loosest binding to the tightest
  ExpressionPtr tuple(bool with_choice = true);
  ExpressionPtr expression();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr compare();
  ExpressionPtr sum();
  ExpressionPtr concat();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filter = true);
  ExpressionPtr primary();
  ExpressionPtr postfix(ExpressionPtr inner);
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr filters(ExpressionPtr inner);
  ExpressionPtr filter(ExpressionPtr input);
  ExpressionPtr test(ExpressionPtr input);
  ExpressionPtr subscript(ExpressionPtr inner);
  void arguments(Expression& call);
  ExpressionPtr chain(ExpressionPtr (Parser::*operand)(),
                      std::initializer_list<std::string_view> operators);

  // Tokens
  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool at_operator(std::string_view text) const {
    return current().is(Token::Kind::kOperator, text);
  }
  bool at_name(std::string_view text) const { return current().is(Token::Kind::kName, text); }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();
  void expect_end(Token::Kind kind);
  [[noreturn]] void wrong(const std::string& expected) const;

  // Nodes
  ExpressionPtr make(Expression::Kind kind, std::string name = "") const;
  static void adopt(Expression& parent, ExpressionPtr part);

  // Counts how deep the parser stands, so that a hostile template cannot exhaust the stack.
  struct Nesting {
    explicit Nesting(Parser& parser) : depth(parser.depth_) {
      if (++depth > Budget::kMaxDepth) fail("it is nested too deep");
    }
    ~Nesting() { --depth; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    int& depth;
  };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace fovea::jinja
