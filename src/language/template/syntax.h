// SPDX-License-Identifier: Apache-2.0
// A template as a tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "language/template/value.h"

namespace fovea::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kConstant,   // value
    kName,       // name
    kList,       // parts
    kTuple,      // parts
    kDict,       // key, value, key, value, ...
    kAttribute,  // parts[0].name
    kItem,       // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]], absent ones null
    kCall,       // parts[0](the rest; the last ones by `names`)
    kFilter,     // parts[0] | name(the rest)
    kTest,       // parts[0] is name(the rest)
    kNot,
    kNegative,
    kPositive,
    kAnd,
    kOr,
    kCompare,     // parts, with `names` as the operators between them
    kArithmetic,  // parts[0] name parts[1]
    kConcat,      // parts, joined as texts
    kChoice       // parts[1] if parts[0] else parts[2], which may be null
  };

  Kind kind = Kind::kConstant;
  int line = 0;
  int depth = 1;
  std::string name;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<std::string> names;
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,    // name, as it is
    kOutput,  // expressions[0]
    kIf,      // bodies[i] where expressions[i] holds; a body more than expressions: else
    kFor,     // names in expressions[0], if expressions[1] (may be null): bodies[0], else bodies[1]
    kSet,     // names, or names[0].name, = expressions[0]
    kSetBlock,  // the same from the text of bodies[0], through expressions[0] where it is not null
    kMacro,     // name(names), with expressions as the defaults of the last of them: bodies[0]
    kFilter,    // expressions[0] of the text of bodies[0]
    kScope,     // bodies[0] with names of its own
    kBreak,
    kContinue
  };

  Kind kind = Kind::kText;
  int line = 0;
  std::string name;
  std::vector<std::string> names;
  std::vector<ExpressionPtr> expressions;
  std::vector<Body> bodies;
};

// What the filter of a block takes its text from.
inline constexpr const char* kBlockText = "(block)";

// Throws TemplateError.
Body parse(std::string_view source);

}  // namespace fovea::jinja
