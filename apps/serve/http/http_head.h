// SPDX-License-Identifier: Apache-2.0
// The head of an answer.
#pragma once

#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace fovea::serve {

enum class Framing { kLength, kChunked, kUntilClose };  // how the client finds the body's end

// The status line and all fields, with the empty line behind them.
std::string reply_head(const HttpReply& reply, Framing framing, bool keep_alive);

bool may_have_body(int status);

// An answer that the server gives by itself.
HttpReply own_reply(const HttpOptions& options, int status, std::string_view message);

}  // namespace fovea::serve
