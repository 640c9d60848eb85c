// SPDX-License-Identifier: Apache-2.0
#include "serve/api_error.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "fovea/result.h"

namespace fovea::serve {
namespace {

using Json = nlohmann::ordered_json;

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

// Keys that a client made up may be quoted in any of these.
std::string one_line(std::string_view text) { return bad_input(text).message; }

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(one_line(text));
}

}  // namespace

ApiError wrong_param(std::string_view param, std::string_view message, std::string_view code) {
  return {.status = 400,
          .message = one_line(message),
          .param = one_line(param),
          .code = std::string(code)};
}

std::string error_body(const ApiError& error) {
  Json fields = Json::object();
  fields["message"] = one_line(error.message);
  fields["type"] = type_of(error.status);
  fields["param"] = text_or_null(error.param);
  fields["code"] = text_or_null(error.code);
  Json body = Json::object();
  body["error"] = std::move(fields);
  return json_text(body);
}

HttpReply error_reply(const ApiError& error) {
  HttpReply reply{.status = error.status, .body = error_body(error)};
  if (error.status == 503 || error.status == 429) reply.fields.emplace_back("Retry-After", "1");
  return reply;
}

ApiError api_error_of(const Error& error) {
  switch (error.reason) {
    case Error::Reason::kContext:
      return {400, error.message, "messages", "context_length_exceeded"};
    case Error::Reason::kRoom:  // nobody else holds any: it never fits
      return {400, error.message, "messages", "memory_exceeded"};
    case Error::Reason::kMemory:
      return {503, error.message, "", "out_of_memory"};
    case Error::Reason::kOther:
      break;
  }
  if (error.kind == Error::Kind::kBadInput) return {400, error.message, "", ""};
  return {500, "the server could not answer this; its log says why", "", "internal_error"};
}

}  // namespace fovea::serve
