// SPDX-License-Identifier: Apache-2.0
// Turns of a conversation, with images anywhere in their text -> the prompt a model was trained on.
//
//   auto format = ChatFormat::load("Qwen3-VL-2B-Instruct");
//   std::vector<ChatTurn> turns = {user_turn({image_part(), text_part("What is this?")})};
//   auto prompt = make_prompt(*format, tokenizer, turns);
//   prompt->ids[prompt->images[0]]  // the place that the first image's tokens take
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/result.h"
#include "language/template.h"
#include "language/tokenizer.h"
#include "weights/config.h"

namespace fovea {

struct ChatPart {
  enum class Kind { kText, kImage };
  Kind kind = Kind::kText;
  std::string text;  // of kText
};

struct ChatTurn {
  std::string role;  // "system", "user" or "assistant"
  std::vector<ChatPart> parts;
};

inline ChatPart text_part(std::string text) { return {ChatPart::Kind::kText, std::move(text)}; }
inline ChatPart image_part() { return {ChatPart::Kind::kImage, {}}; }
inline ChatTurn user_turn(std::vector<ChatPart> parts) { return {"user", std::move(parts)}; }

// The tokens around and in place of an image; Qwen's.
struct VisionTokens {
  std::string start = "<|vision_start|>";
  std::string image = "<|image_pad|>";
  std::string end = "<|vision_end|>";
};

struct ChatOptions {
  bool add_generation_prompt = true;  // end with the start of the assistant's turn
  std::optional<bool> enable_thinking =
      std::nullopt;  // for templates that ask; not given: their own default
};

// How a model wants turns written: by its own template, or in Qwen's known form without one.
class ChatFormat {
 public:
  // Looks for chat_template.jinja, chat_template.json and tokenizer_config.json in a checkpoint
  // folder, in this order, as transformers does.
  static Result<ChatFormat> load(const std::string& folder, const VisionTokens& vision = {});

  // `special` are the names a template knows tokens by: bos_token, eos_token, ...
  static Result<ChatFormat> from_template(std::string_view source,
                                          std::map<std::string, std::string> special = {},
                                          const VisionTokens& vision = {});

  static ChatFormat qwen(const VisionTokens& vision = {});

  Result<std::string> render(std::span<const ChatTurn> turns,
                             const ChatOptions& options = {}) const;

  bool template_knows_images() const { return knows_images_; }
  const VisionTokens& vision() const { return vision_; }

 private:
  Result<std::string> render_template(std::span<const ChatTurn> turns, const ChatOptions& options,
                                      bool in_parts) const;
  std::string render_qwen(std::span<const ChatTurn> turns, const ChatOptions& options) const;
  std::string plain_text(const ChatTurn& turn) const;

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
                           std::span<const ChatTurn> turns, const ChatOptions& options = {});

// Whether a tokenizer belongs to a model: the model has an embedding for every id it gives, and the
// texts that stand for an image are the tokens that config.json says they are. Asked once, when a
// model is loaded; from then on every id of a prompt is one the model knows.
Status check_tokenizer(const Tokenizer& tokenizer, const ModelConfig& model,
                       const VisionTokens& vision = {});

}  // namespace fovea
