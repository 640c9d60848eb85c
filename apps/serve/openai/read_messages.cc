// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/read_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "serve/openai/read_tools.h"

namespace fovea::serve {
namespace {

constexpr MessageRole kRoles[] = {{"system", "system", false},
                                  {"developer", "system", false},
                                  {"user", "user", true},
                                  {"assistant", "assistant", false},
                                  {"tool", "tool", true}};

ApiResult<const MessageRole*> read_role(const Fields& message) {
  const Json* given = message.find("role");
  if (given == nullptr) return message.wrong("role", "it is missing; give a string");
  if (!given->is_string()) return wrong_type(message.param("role"), *given, "a string");
  const auto* role = std::find_if(std::begin(kRoles), std::end(kRoles),
                                  [&](const MessageRole& one) { return *given == one.name; });
  if (role != std::end(kRoles)) return role;
  return message.wrong("role",
                       fmt::format("{} is unknown; use system, developer, user, assistant or tool",
                                   in_quotes(given->get_ref<const std::string&>())));
}

// The types that parts have.
struct PartTypes {
  std::string_view text;
  std::string_view said;  // text of an answer
  std::string_view picture;
};
constexpr PartTypes kTypesOfChat{"text", "text", "image_url"};
constexpr PartTypes kTypesOfResponses{"input_text", "output_text", "input_image"};

}  // namespace

Fault need_text(const Fields& fields, const char* key, std::string& text) {
  if (!fields.has(key)) return fields.wrong(key, "it is missing; give a string");
  return fields.read(key, text);
}

Fault MessageReader::read(Json& json, const std::string& path) {
  if (!json.is_object()) return wrong_type(path, json, "an object");
  const Fields message(json, path);
  auto found = read_role(message);
  if (auto* error = std::get_if<ApiError>(&found)) return *error;
  const MessageRole& role = *std::get<const MessageRole*>(found);
  const bool by_assistant = std::string_view(role.name) == "assistant";
  for (const char* key : {"audio", "function_call"})
    if (by_assistant && message.has(key)) return message.wrong(key, "it is not supported");
  Message made{.role = role.of_message};
  if (by_assistant)
    if (auto fault = read_tool_calls(message, argument_bytes_, made.tool_calls)) return fault;
  if (made.role == "tool") {
    std::string id;  // answers stand in the order of the calls, which is all that templates know
    if (auto fault = need_text(message, "tool_call_id", id)) return fault;
  }
  if (auto fault = read_content(message, "content", role, made)) return fault;
  call_.request.messages.push_back(std::move(made));
  return {};
}

Fault MessageReader::read_output(const Fields& item) {
  Message made{.role = "tool"};
  if (auto fault = read_content(item, "output", kRoles[4], made)) return fault;
  call_.request.messages.push_back(std::move(made));
  return {};
}

Fault MessageReader::read_content(const Fields& message, const char* key, const MessageRole& role,
                                  Message& made) {
  Json* content = message.find(key);
  if (content == nullptr) {
    if (made.role == "assistant" && message.has("refusal"))
      return message.read("refusal", made.parts.emplace_back().text);
    if (!made.tool_calls.empty()) return {};
    return message.wrong(key, "it is missing; give a string or a list of parts");
  }
  if (content->is_string()) return message.read(key, made.parts.emplace_back().text);
  const std::string path = message.param(key);
  if (!content->is_array()) return wrong_type(path, *content, "a string or a list of parts");
  if (content->empty() && made.tool_calls.empty())
    return message.wrong(key, "the list is empty; give a part");
  for (size_t i = 0; i < content->size(); ++i)
    if (auto fault = read_part((*content)[i], fmt::format("{}[{}]", path, i), role, made))
      return fault;
  return {};
}

Fault MessageReader::read_part(Json& json, const std::string& path, const MessageRole& role,
                               Message& made) {
  if (!json.is_object()) return wrong_type(path, json, "an object with a type");
  const Fields part(json, path);
  const PartTypes& types = call_.api == Api::kChat ? kTypesOfChat : kTypesOfResponses;
  std::string type;
  if (auto fault = need_text(part, "type", type)) return fault;
  if (type == types.text || type == types.said)
    return need_text(part, "text", made.parts.emplace_back().text);
  if (type == "refusal" && made.role == "assistant")
    return need_text(part, "refusal", made.parts.emplace_back().text);
  if (type != types.picture)
    return part.wrong("type", fmt::format("{} is not supported; use {} or {}", in_quotes(type),
                                          types.text, types.picture));
  if (!role.shows_pictures)
    return part.wrong("type", fmt::format("messages of the {} show no pictures; put it into one of "
                                          "the user",
                                          role.name));
  return read_picture(part, made);
}

Fault MessageReader::read_picture(const Fields& part, Message& made) {
  constexpr size_t kLongestUuid = 256;
  if (call_.pictures.size() >= limits_.pictures)
    return wrong_param(
        call_.api == Api::kChat ? "messages" : "input",
        fmt::format("messages show more than {} pictures; give fewer", limits_.pictures));
  PictureName picture{.param = part.param("image_url")};
  PictureDetail detail = PictureDetail::kAuto;
  if (auto fault = part.read("uuid", picture.uuid)) return fault;
  if (picture.uuid.size() > kLongestUuid)
    return part.wrong(
        "uuid", fmt::format("it has {} bytes; give {} at most", picture.uuid.size(), kLongestUuid));
  if (auto fault = read_url(part, picture, detail)) return fault;
  if (picture.url.empty() && picture.uuid.empty())
    return wrong_param(picture.param,
                       picture.param +
                           ": there is no picture; give a URL, or the uuid of one that "
                           "was given before");
  detail_ = std::max(detail_, detail);
  made.parts.push_back({.image = static_cast<int>(call_.pictures.size())});
  call_.pictures.push_back(std::move(picture));
  return {};
}

// {"url": ..., "detail": ...}, or the URL alone.
Fault MessageReader::read_url(const Fields& part, PictureName& picture, PictureDetail& detail) {
  Json* given = part.find("image_url");
  if (given == nullptr) return {};
  if (given->is_string()) {
    if (auto fault = part.read("image_url", picture.url)) return fault;
    return read_detail(part, detail);
  }
  if (!given->is_object())
    return wrong_type(picture.param, *given, "an object with a url, or the URL");
  const Fields fields(*given, picture.param);
  if (auto fault = fields.read("url", picture.url)) return fault;
  return read_detail(fields, detail);
}

Fault MessageReader::read_detail(const Fields& fields, PictureDetail& detail) {
  if (!fields.has("detail")) return {};
  std::string name;
  if (auto fault = fields.read("detail", name)) return fault;
  const auto named = detail_named(name);
  if (!named)
    return fields.wrong(
        "detail", fmt::format("{} is unknown; use low, auto, high or original", in_quotes(name)));
  detail = *named;
  return {};
}

Fault read_messages(const Fields& body, const ChatLimits& limits, ChatCall& call,
                    PictureDetail& detail) {
  auto list = body.list("messages");
  if (auto* error = std::get_if<ApiError>(&list)) return *error;
  Json* messages = std::get<Json*>(list);
  if (messages == nullptr || messages->empty())
    return body.wrong("messages", "there are none; give one at least");
  if (messages->size() > limits.messages)
    return body.wrong("messages", fmt::format("there are {}; give {} at most",
                                              with_commas(static_cast<int64_t>(messages->size())),
                                              limits.messages));
  MessageReader reader(limits, call, detail);
  for (size_t i = 0; i < messages->size(); ++i)
    if (auto fault = reader.read((*messages)[i], fmt::format("messages[{}]", i))) return fault;
  return check_last_message(call, "messages", messages->size());
}

Fault check_last_message(const ChatCall& call, const char* list, size_t size) {
  const std::string& last = call.request.messages.back().role;
  if (last == "user" || last == "tool") return {};
  return wrong_param(fmt::format("{}[{}].role", list, size - 1),
                     fmt::format("the last message is of the {}; it must be of the user or of a "
                                 "tool",
                                 last));
}

}  // namespace fovea::serve
