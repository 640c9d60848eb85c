// SPDX-License-Identifier: Apache-2.0
// Messages of a conversation, with images anywhere in their text -> the prompt a model was trained
// on.
//
//   auto format = ChatFormat::load("Qwen3-VL-2B-Instruct");
//   std::vector<ChatMessage> messages = {user_message({image_part(), text_part("What is this?")})};
//   auto prompt = make_prompt(*format, tokenizer, messages);
//   prompt->ids[prompt->images[0]]  // the place that the first image's tokens take
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/result.h"
#include "language/sourced_text.h"
#include "language/template.h"
#include "language/tokenizer.h"
#include "weights/config.h"

namespace fovea {

struct ChatPart {
  enum class Kind { kText, kImage };
  Kind kind = Kind::kText;
  std::string text;  // of kText
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" or "tool"
  std::vector<ChatPart> parts;
  std::string tool_calls;  // of the assistant: a JSON list, as in OpenAI's API; empty: none
};

inline ChatPart text_part(std::string text) { return {ChatPart::Kind::kText, std::move(text)}; }
inline ChatPart image_part() { return {ChatPart::Kind::kImage, {}}; }
inline ChatMessage user_message(std::vector<ChatPart> parts) { return {"user", std::move(parts)}; }

// The tokens around and in place of an image; Qwen's.
struct VisionTokens {
  std::string start = "<|vision_start|>";
  std::string image = "<|image_pad|>";
  std::string end = "<|vision_end|>";
};

struct ChatOptions {
  bool add_generation_prompt = true;  // end with the start of the assistant's message
  std::optional<bool> enable_thinking =
      std::nullopt;  // for templates that ask; not given: their own default
  // Texts and roles of messages, tools and calls are people's: special tokens (<|im_end|>,
  // <|image_pad|>, ...) that are written in them stay text, whatever the template does with them.
  // On: they become tokens, as in transformers.
  bool allow_special = false;
  std::string tools;             // that may be called: a JSON list, as in OpenAI's API; empty: none
  std::string template_options;  // what else the template is told: a JSON object; empty: nothing
  std::function<bool()> keep_going = nullptr;  // asked while it works; false ends it with an error
};

// How a model wants messages written: by its own template, or in Qwen's known form without one.
class ChatFormat {
 public:
  // Looks for chat_template.jinja, chat_template.json and tokenizer_config.json in a checkpoint
  // folder, in this order, as transformers does.
  static Result<ChatFormat> load(const std::string& folder, const VisionTokens& vision = {});

  // `special` are the names a template knows tokens by: bos_token, eos_token, ...
  static Result<ChatFormat> from_template(std::string_view source,
                                          std::map<std::string, std::string> special = {},
                                          const VisionTokens& vision = {});

  // Without a template tools are refused.
  static ChatFormat qwen(const VisionTokens& vision = {});

  Result<SourcedText> render(std::span<const ChatMessage> messages,
                             const ChatOptions& options = {}) const;

  bool template_knows_images() const { return knows_images_; }
  const VisionTokens& vision() const { return vision_; }

 private:
  Result<SourcedText> render_template(std::span<const ChatMessage> messages,
                                      const ChatOptions& options, bool in_parts) const;
  SourcedText render_qwen(std::span<const ChatMessage> messages, const ChatOptions& options) const;
  void append_parts(SourcedText& text, const ChatMessage& message, char source) const;

  VisionTokens vision_;
  std::map<std::string, std::string> special_;
  std::optional<Template> template_;
  bool knows_images_ = false;  // else images go into the text that the template gets
};

struct Prompt {
  std::string text;
  std::vector<int> ids;        // one placeholder for each image
  std::vector<size_t> images;  // where the placeholders stand in `ids`
};

Result<Prompt> make_prompt(const ChatFormat& format, const Tokenizer& tokenizer,
                           std::span<const ChatMessage> messages, const ChatOptions& options = {});

// Whether a tokenizer belongs to a model: the model has an embedding for every id it gives, and the
// texts that stand for an image are the tokens that config.json says they are. Asked once, when a
// model is loaded; from then on every id of a prompt is one the model knows.
Status check_tokenizer(const Tokenizer& tokenizer, const ModelConfig& model,
                       const VisionTokens& vision = {});

}  // namespace fovea
