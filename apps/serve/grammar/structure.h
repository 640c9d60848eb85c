// SPDX-License-Identifier: Apache-2.0
// What the answers of a call must be like, as a structural tag of xgrammar.
#pragma once

#include <string>

#include "serve/openai/chat_request.h"

namespace fovea::serve {

// Of schemas that clients give: what compiling them and following them may
// cost.
struct SchemaLimits {
  size_t bytes = size_t{64} << 10;  // of all schemas of a call, as JSON
  size_t levels = 32;
  size_t values = 5'000;       // of all schemas of a call: objects, lists, numbers, texts
  size_t pattern_bytes = 256;  // of each "pattern"
  int64_t repetitions = 100;   // of something in a pattern; more take 20 ms a token to follow
  // Of all patterns and of minLength and maxLength (up to 128 of each) of a call together: each
  // takes up to 20 ms to compile where a model has 150,000 tokens.
  int64_t all_repetitions = 2'000;
  int64_t counts = 10'000;  // minItems, maxLength and the like
};

// JSON, or empty where answers may be anything. Calls of tools have the form
// that openai/tool_calls.h reads. An error names the key of the schema that is
// too much.
ApiResult<std::string> answer_structure(const ChatCall& call, const SchemaLimits& limits = {});

}  // namespace fovea::serve
