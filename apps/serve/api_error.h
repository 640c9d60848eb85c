// SPDX-License-Identifier: Apache-2.0
// What went wrong with a request, as clients of OpenAI's API read it.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "fovea/result.h"
#include "serve/http/http.h"

namespace fovea::serve {

// A request that cannot be answered: the status of HTTP and the fields of its "error".
struct ApiError {
  int status = 400;
  std::string message;  // one printable line of at most 500 characters
  std::string param;    // the key of the request that is wrong ("messages[0].content"); empty: null
  std::string code;     // for programs ("context_length_exceeded"); empty: null
};

// 400 about a key of the request.
ApiError wrong_param(std::string_view param, std::string_view message, std::string_view code = "");

// {"error":{"message":...,"type":...,"param":...,"code":...}}; the type follows from the status:
// 401 authentication_error, 404 not_found_error, 429 rate_limit_error, other 4xx
// invalid_request_error, 503 overloaded_error, other 5xx server_error.
std::string error_body(const ApiError& error);

// The answer of HTTP: that body, and Retry-After where trying again may help.
HttpReply error_reply(const ApiError& error);

// What went wrong in the engine. What is not the client's doing is not told to it: such a message
// may name files of this machine.
ApiError api_error_of(const Error& error);

// Where there is no memory to write anything.
inline constexpr std::string_view kOutOfMemoryBody =
    R"({"error":{"message":"out of memory","type":"overloaded_error","param":null,)"
    R"("code":"out_of_memory"}})";

// A value, or the error that goes to the client.
template <class T>
using ApiResult = std::variant<T, ApiError>;

}  // namespace fovea::serve
