// SPDX-License-Identifier: Apache-2.0
// "messages" of a request, or "input": who says what, and the pictures that they show.
#pragma once

#include "serve/openai/chat_request.h"
#include "serve/openai/read_json.h"
#include "serve/openai/read_look.h"

namespace fovea::serve {

// Into request.messages and pictures; `detail` gets the largest of the pictures'.
Fault read_messages(const Fields& body, const ChatLimits& limits, ChatCall& call,
                    PictureDetail& detail);
// The same of /v1/responses: "instructions" and "input".
Fault read_input(const Fields& body, const ChatLimits& limits, ChatCall& call,
                 PictureDetail& detail);

// Whether the last message can be answered; it was read from the last of `size` in `list`.
Fault check_last_message(const ChatCall& call, const char* list, size_t size);

// A key that must hold a text.
Fault need_text(const Fields& fields, const char* key, std::string& text);

struct MessageRole {
  const char* name;
  const char* of_message;
  bool shows_pictures;  // chat templates leave those of others out
};

// Reads messages one after the other, in the form that the call's API has.
class MessageReader {
 public:
  MessageReader(const ChatLimits& limits, ChatCall& call, PictureDetail& detail)
      : limits_(limits), call_(call), detail_(detail) {}

  Fault read(Json& json, const std::string& path);
  Fault read_output(const Fields& item);  // what a tool gave, in "output"
  size_t& argument_bytes() { return argument_bytes_; }

 private:
  Fault read_content(const Fields& message, const char* key, const MessageRole& role,
                     Message& made);
  Fault read_part(Json& json, const std::string& path, const MessageRole& role, Message& made);
  Fault read_picture(const Fields& part, Message& made);
  Fault read_url(const Fields& part, PictureName& picture, PictureDetail& detail);
  Fault read_detail(const Fields& fields, PictureDetail& detail);

  const ChatLimits& limits_;
  ChatCall& call_;
  PictureDetail& detail_;
  size_t argument_bytes_ = size_t{1} << 20;  // of all tool calls of the request may be parsed
};

}  // namespace fovea::serve
