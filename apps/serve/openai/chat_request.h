// SPDX-License-Identifier: Apache-2.0
// The body of POST /v1/chat/completions or of POST /v1/responses -> what the engine is asked.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/request.h"
#include "serve/api_error.h"

namespace fovea::serve {

// A picture that a message shows: by URL, by the uuid it was given in an earlier request, or both.
struct PictureName {
  std::string url;  // empty where it is `long_url`
  std::string uuid;
  std::string param;  // "messages[0].content[1].image_url"
  // Where the question looks, in pixels of the picture: x, y, width, height.
  std::vector<std::array<double, 4>> regions;
  // A data URL of megabytes stays in the request's body, which all such pictures of it own
  // together; the picture may be decoded where its URL stands.
  std::span<char> long_url;
  std::shared_ptr<std::string> body;
};

// Whose names the body has, and the answer is to have.
enum class Api { kChat, kResponses };

enum class ToolChoice { kAuto, kNone, kRequired, kNamed };
enum class AnswerFormat { kText, kJsonObject, kJsonSchema };

struct ChatCall {
  Api api = Api::kChat;
  std::string model;  // empty: the one that is served
  // Messages and options; its images are those of `pictures`, in their order, still to be loaded.
  Request request;
  std::vector<PictureName> pictures;
  bool stream = false;
  bool include_usage = false;  // a chunk of a stream
  bool logprobs = false;
  int top_logprobs = 0;
  bool trace = false;  // "fovea": maps and attention in the answer, too
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;  // of kNamed
  bool parallel_tool_calls = true;
  AnswerFormat format = AnswerFormat::kText;
  std::string schema;  // of kJsonSchema, as JSON
  // Of kResponses: what its answers repeat of the request, a JSON object.
  std::string echo;
};

struct ChatLimits {
  size_t messages = 10'000;
  size_t pictures = 64;
  int64_t pixels = 178'956'970;  // of all pictures of a request together
  int answers = 16;
  // Of an answer where the call does not say. Memory for all of them is set aside before an answer
  // begins, so it is not what the context has left.
  int default_tokens = 4096;
};

// Reads and checks everything that can be checked without a model. Unknown keys are ignored. Where
// no temperature is given it is the engine's, 0, not OpenAI's 1: small models answer best so.
ApiResult<ChatCall> parse_chat_call(std::string body, const ChatLimits& limits = {});
// The same of /v1/responses. What would need an earlier response of this server is refused.
ApiResult<ChatCall> parse_responses_call(std::string body, const ChatLimits& limits = {});

// Regions of a picture as coupling: 1 inside, 0 outside, a value a level-0 cell.
Map couple_regions(const std::vector<std::array<double, 4>>& regions, Size image);

}  // namespace fovea::serve
