// SPDX-License-Identifier: Apache-2.0
// A template's text -> tokens, with Jinja's control of white space: trim_blocks and lstrip_blocks
// are on, as transformers has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea::jinja {

struct Token {
  enum class Kind {
    kText,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;  // of kString: unescaped
  int line = 1;

  bool is(Kind wanted, std::string_view content) const { return kind == wanted && text == content; }
};

// Throws TemplateError. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace fovea::jinja
