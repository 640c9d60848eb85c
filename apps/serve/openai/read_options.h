// SPDX-License-Identifier: Apache-2.0
// Keys that both of OpenAI's APIs have, or that are ours: how answers are drawn
// and given.
#pragma once

#include <functional>

#include "serve/openai/chat_request.h"
#include "serve/openai/read_json.h"

namespace fovea::serve {

Fault read_options(const Fields& body, const ChatLimits& limits, ChatCall& call);

Fault read_top_logprobs(const Fields& body, ChatCall& call);

// What answers must be like: text, json_object or json_schema, whose schema the
// APIs keep in different places.
using SchemaFinder = std::function<ApiResult<Json*>(const Fields& format)>;
Fault read_format(const Fields& format, ChatCall& call, const SchemaFinder& find_schema);
// "schema" of these fields.
ApiResult<Json*> need_schema(const Fields& fields);

}  // namespace fovea::serve
