// SPDX-License-Identifier: Apache-2.0
// A structure that answers must have -> which tokens may come next, by
// xgrammar.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fovea/result.h"
#include "fovea/sampling.h"

namespace fovea::serve {

// Whether this program was built with xgrammar; without it nothing compiles.
bool has_grammars();

// A structure that was compiled for a vocabulary. Copies share it.
class CompiledStructure {
 public:
  // Each copy of the mask follows an answer of its own.
  TokenMask mask() const;
  int64_t bytes() const;  // about what it takes
  // Whether an answer may end before it has begun.
  bool may_be_empty() const;

 private:
  friend class StructureCompiler;
  struct Grammar;
  explicit CompiledStructure(std::shared_ptr<const Grammar> grammar);
  std::shared_ptr<const Grammar> grammar_;
};

// Knows the tokens of a model. May be used by one thread at a time.
class StructureCompiler {
 public:
  explicit StructureCompiler(const TokenTexts& vocabulary);
  ~StructureCompiler();

  // `structure` is a structural tag of xgrammar, as JSON. The error says what
  // is wrong with it, in words that know nothing of xgrammar's source. One that no answer has is an
  // error too.
  Result<CompiledStructure> compile(const std::string& structure);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::serve
