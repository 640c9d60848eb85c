// SPDX-License-Identifier: Apache-2.0
// Tools of a request: those that may be called, which must be, and those that were.
#pragma once

#include <string>

#include "serve/openai/chat_request.h"
#include "serve/openai/read_json.h"

namespace fovea::serve {

// "tools", "tool_choice". A model that must not call a tool is not told of them.
Fault read_tools(const Fields& body, ChatCall& call);

// "tool_calls" of a message of the assistant, for Message::tool_calls: arguments are objects where
// their text is one, since chat templates write them as JSON. Empty where there are none.
// `left_bytes` of arguments may still be parsed; it falls by what is.
Fault read_tool_calls(const Fields& message, size_t& left_bytes, std::string& tool_calls);

}  // namespace fovea::serve
