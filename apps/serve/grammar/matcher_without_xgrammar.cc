// SPDX-License-Identifier: Apache-2.0
// Where the program is built without xgrammar.
#include "serve/grammar/matcher.h"

namespace fovea::serve {

struct CompiledStructure::Grammar {};
struct StructureCompiler::State {};

bool has_grammars() { return false; }

CompiledStructure::CompiledStructure(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {}
TokenMask CompiledStructure::mask() const { return nullptr; }
int64_t CompiledStructure::bytes() const { return 0; }
bool CompiledStructure::may_be_empty() const { return false; }

StructureCompiler::StructureCompiler(const TokenTexts& /*vocabulary*/) {}
StructureCompiler::~StructureCompiler() = default;

Result<CompiledStructure> StructureCompiler::compile(const std::string& /*structure*/) {
  return bad_input("this server was built without xgrammar");
}

}  // namespace fovea::serve
