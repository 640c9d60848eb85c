// SPDX-License-Identifier: Apache-2.0
// A body -> a call, by what reads the keys of its API. Pictures that are long data URLs stay where
// they are in the body.
#pragma once

#include <string>

#include "serve/openai/chat_request.h"
#include "serve/openai/read_json.h"

namespace fovea::serve {

using ReadCall = Fault (*)(const Fields& body, const ChatLimits& limits, ChatCall& call);

ApiResult<ChatCall> parse_call(std::string body, Api api, const ChatLimits& limits, ReadCall read);

}  // namespace fovea::serve
