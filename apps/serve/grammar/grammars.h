// SPDX-License-Identifier: Apache-2.0
// Grammars that answers are held to, compiled once for all requests that share
// one.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "fovea/fovea.h"
#include "serve/grammar/matcher.h"
#include "serve/openai/chat_request.h"

namespace fovea::serve {

// The key that asks for a form of a call's answers, where one does: "response_format", "tools".
std::string form_param(const ChatCall& call);

// What the answers of a call are held to.
struct Form {
  std::string structure;  // empty: nothing
  std::string param;      // the key that asks for it
};
ApiResult<Form> form_of(const ChatCall& call);

// May be used from any thread. One grammar is compiled at a time, by who asks
// for it: schemas of strangers take one core at most. Finding one never waits
// for that.
class Grammars {
 public:
  explicit Grammars(size_t most = 64, int64_t most_bytes = int64_t{128} << 20)
      : most_(most), most_bytes_(most_bytes) {}

  // Which tokens the answers may have; empty where that is not compiled.
  TokenMask find(const Form& form);
  // The same, which may take seconds.
  ApiResult<TokenMask> compile(const Form& form, const Engine& engine);

 private:
  struct Kept {
    std::string structure;
    CompiledStructure compiled;
  };

  void keep(std::string structure, CompiledStructure compiled);

  const size_t most_;
  const int64_t most_bytes_;
  std::mutex compiling_;
  std::unique_ptr<StructureCompiler> compiler_;  // made by the first that needs it
  std::mutex mutex_;                             // guards what is kept
  std::list<Kept> kept_;                         // the latest last
};

}  // namespace fovea::serve
