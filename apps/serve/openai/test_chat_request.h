// SPDX-License-Identifier: Apache-2.0
// Bodies of requests for tests, taken and refused.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "serve/openai/chat_request.h"

namespace fovea::serve {

inline constexpr const char* kHello = R"([{"role":"user","content":"Hello"}])";

// A body with a question and these keys; `messages` may be among them.
inline std::string body_with(const std::string& keys) {
  std::string body = "{" + keys;
  if (keys.find("\"messages\"") == std::string::npos)
    body += std::string(keys.empty() ? "" : ",") + "\"messages\":" + kHello;
  return body + "}";
}

inline std::string body_of(const std::string& messages) {
  return R"({"messages":)" + messages + "}";
}

inline ChatCall take(const std::string& body, const ChatLimits& limits = {}) {
  auto call = parse_chat_call(body, limits);
  if (auto* error = std::get_if<ApiError>(&call)) {
    ADD_FAILURE() << body << ": " << error->message;
    return {};
  }
  return std::move(std::get<ChatCall>(call));
}

inline ApiError refuse(const std::string& body, const ChatLimits& limits = {}) {
  auto call = parse_chat_call(body, limits);
  if (std::holds_alternative<ChatCall>(call)) {
    ADD_FAILURE() << "taken: " << body.substr(0, 300);
    return {.status = 0};
  }
  const ApiError& error = std::get<ApiError>(call);
  EXPECT_EQ(error.status, 400) << body.substr(0, 300);
  EXPECT_FALSE(error.message.empty()) << body.substr(0, 300);
  return error;
}

inline AskOptions options_of(const std::string& keys) {
  return take(body_with(keys)).request.options;
}

// Keys that are refused, and the one that the error names.
struct Bad {
  const char* keys;
  const char* param;
};

// A message of the user that shows these pictures; each is what follows the type of its part.
inline std::string shows(const std::vector<std::string>& parts) {
  std::string list = R"({"type":"text","text":"What?"})";
  for (const std::string& part : parts) list += R"(,{"type":"image_url",)" + part + "}";
  return R"("messages":[{"role":"user","content":[)" + list + "]}]";
}

inline constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}},)"
    R"({"type":"function","function":{"name":"g","description":"Does g.","strict":true}}])";

}  // namespace fovea::serve
