// SPDX-License-Identifier: Apache-2.0
#include "language/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/read_file.h"
#include "language/chat_tools.h"
#include "language/template/value.h"
#include "language/template_options.h"
#include "language/tokenizer/unicode.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using FileJson = nlohmann::json;  // of files: an ordered object of many keys takes too long

constexpr int64_t kMaxFileBytes = int64_t{16} << 20;

bool is_image(const ChatPart& part) { return part.kind == ChatPart::Kind::kImage; }

size_t count_images(std::span<const ChatMessage> messages) {
  size_t count = 0;
  for (const ChatMessage& message : messages)
    count +=
        static_cast<size_t>(std::count_if(message.parts.begin(), message.parts.end(), is_image));
  return count;
}

// How often `part` stands in a text, all of it from one source.
size_t count_of(const SourcedText& text, std::string_view part, bool by_people) {
  size_t count = 0;
  for (size_t at = text.bytes.find(part); at != std::string::npos;
       at = text.bytes.find(part, at + part.size()))
    if (people_wrote(text.sources, at, at + part.size()) == by_people) ++count;
  return count;
}

char source_of(const ChatOptions& options) {
  return options.allow_special ? SourcedText::kTemplate : SourcedText::kPeople;
}

std::string valid(const std::string& text) {
  return valid_utf8_prefix(text) == text.size() ? text : replace_invalid_utf8(text);
}

// Templates ask whether there is content beside calls of tools: an empty text is none.
bool is_left_out(const ChatMessage& message, const ChatPart& part) {
  return !message.tool_calls.empty() && !is_image(part) && part.text.empty();
}

jinja::Value parts_value(const ChatMessage& message, char source) {
  jinja::Value::Items parts;
  for (const ChatPart& part : message.parts) {
    if (is_left_out(message, part)) continue;
    parts.push_back(is_image(part)
                        ? jinja::Value::dict({{"type", "image"}})
                        : jinja::Value::dict(
                              {{"type", "text"}, {"text", jinja::Text(valid(part.text), source)}}));
  }
  return jinja::Value::list(std::move(parts));
}

// What a template gets of a message.
Result<jinja::Value> message_value(const ChatMessage& message, jinja::Value content, char source) {
  jinja::Value::Pairs pairs = {{"role", jinja::Text(valid(message.role), source)},
                               {"content", std::move(content)}};
  if (!message.tool_calls.empty()) {
    auto calls = tools_value("tool_calls", message.tool_calls, source);
    if (!calls) return calls.error();
    pairs.emplace_back("tool_calls", std::move(*calls));
  }
  return jinja::Value::dict(pairs);
}

bool needs_template(const ChatMessage& message) {
  return message.role == "tool" || !message.tool_calls.empty();
}

Result<FileJson> read_json_if_there(const std::string& path) {
  const auto text = read_file_if_there(path, kMaxFileBytes);
  if (!text) return text.error();
  if (text->empty()) return FileJson::object();
  auto json = parse_json(*text);
  if (!json) return bad_input(fmt::format("cannot use {}: {}", path, json.error().message));
  if (!json->is_object()) return bad_input(fmt::format("{} is not a JSON object", path));
  return json;
}

// The template of {"chat_template": ...}: a text, or a list of named ones, "default" among them.
std::string template_in(const FileJson& json) {
  const FileJson found = json.value("chat_template", FileJson());
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) return "";
  std::string chosen;
  for (const FileJson& one : found) {
    const FileJson name = one.is_object() ? one.value("name", FileJson()) : FileJson();
    const FileJson text = one.is_object() ? one.value("template", FileJson()) : FileJson();
    if (text.is_string() && (chosen.empty() || name == "default")) chosen = text.get<std::string>();
  }
  return chosen;
}

std::map<std::string, std::string> special_tokens_in(const FileJson& json) {
  std::map<std::string, std::string> special;
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    FileJson token = json.value(name, FileJson());
    if (token.is_object()) token = FileJson(token.value("content", FileJson()));
    if (token.is_string()) special[name] = token.get<std::string>();
  }
  return special;
}

}  // namespace

ChatFormat ChatFormat::qwen(const VisionTokens& vision) {
  ChatFormat format;
  format.vision_ = vision;
  return format;
}

Result<ChatFormat> ChatFormat::from_template(std::string_view source,
                                             std::map<std::string, std::string> special,
                                             const VisionTokens& vision) {
  auto parsed = Template::parse(source);
  if (!parsed) return parsed.error();
  ChatFormat format = qwen(vision);
  format.special_ = std::move(special);
  format.template_ = std::move(*parsed);
  // Whether a template knows images shows in what it makes of one.
  const std::vector<ChatMessage> probe = {user_message({image_part(), text_part("fovea probe")})};
  const auto text = format.render_template(probe, {}, true);
  format.knows_images_ = text && count_of(*text, vision.image, false) == 1 &&
                         count_of(*text, "fovea probe", true) == 1;
  return format;
}

Result<ChatFormat> ChatFormat::load(const std::string& folder, const VisionTokens& vision) {
  const fs::path path(folder);
  const auto config = read_json_if_there((path / "tokenizer_config.json").string());
  if (!config) return config.error();
  const auto processor = read_json_if_there((path / "chat_template.json").string());
  if (!processor) return processor.error();
  const auto file = read_file_if_there((path / "chat_template.jinja").string(), kMaxFileBytes);
  if (!file) return file.error();

  std::string source = *file;
  std::string from = (path / "chat_template.jinja").string();
  if (source.empty()) {
    source = template_in(*processor);
    from = (path / "chat_template.json").string();
  }
  if (source.empty()) {
    source = template_in(*config);
    from = (path / "tokenizer_config.json").string();
  }
  if (source.empty()) return qwen(vision);
  auto format = from_template(source, special_tokens_in(*config), vision);
  if (!format) return bad_input(fmt::format("{}: {}", from, format.error().message));
  return format;
}

void ChatFormat::append_parts(SourcedText& text, const ChatMessage& message, char source) const {
  for (const ChatPart& part : message.parts) {
    if (is_image(part)) {
      text.append(vision_.start + vision_.image + vision_.end, SourcedText::kTemplate);
    } else {
      text.append(valid(part.text), source);
    }
  }
}

SourcedText ChatFormat::render_qwen(std::span<const ChatMessage> messages,
                                    const ChatOptions& options) const {
  SourcedText text;
  const auto write = [&](std::string_view part) { text.append(part, SourcedText::kTemplate); };
  for (const ChatMessage& message : messages) {
    write("<|im_start|>");
    text.append(valid(message.role), source_of(options));
    write("\n");
    append_parts(text, message, source_of(options));
    write("<|im_end|>\n");
  }
  if (options.add_generation_prompt) write("<|im_start|>assistant\n");
  return text;
}

Result<SourcedText> ChatFormat::render_template(std::span<const ChatMessage> messages,
                                                const ChatOptions& options, bool in_parts) const {
  using jinja::Value;
  const char source = source_of(options);
  Value::Items values;
  for (const ChatMessage& message : messages) {
    SourcedText plain;
    if (!in_parts) append_parts(plain, message, source);
    Value content = in_parts ? parts_value(message, source) : Value(jinja::Text(plain));
    auto value = message_value(message, std::move(content), source);
    if (!value) return value.error();
    values.push_back(std::move(*value));
  }
  Value tools = jinja::None{};
  if (!options.tools.empty()) {
    auto given = tools_value("tools", options.tools, source);
    if (!given) return given.error();
    tools = std::move(*given);
  }
  Template::Variables variables = {{"messages", Value::list(std::move(values))},
                                   {"tools", std::move(tools)},
                                   {"documents", jinja::None{}},
                                   {"add_generation_prompt", options.add_generation_prompt}};
  auto others = template_options(options.template_options, source);
  if (!others) return others.error();
  for (auto& [name, value] : *others)
    if (!options.enable_thinking || name != "enable_thinking")
      variables.emplace_back(name, std::move(value));
  if (options.enable_thinking) variables.emplace_back("enable_thinking", *options.enable_thinking);
  for (const auto& [name, token] : special_) variables.emplace_back(name, valid(token));
  return template_->render_sourced(variables, {.keep_going = options.keep_going});
}

Result<SourcedText> ChatFormat::render(std::span<const ChatMessage> messages,
                                       const ChatOptions& options) const {
  if (!template_ &&
      (!options.tools.empty() || std::any_of(messages.begin(), messages.end(), needs_template)))
    return bad_input(
        "the model has no chat template, which would say how it is told of tools; leave out tools, "
        "tool_calls and messages of the role tool, or add chat_template.jinja to the model's "
        "folder");
  auto text = template_ ? render_template(messages, options, knows_images_)
                        : Result<SourcedText>(render_qwen(messages, options));
  if (!text) return text;
  const size_t expected = count_images(messages);
  const size_t found = count_of(*text, vision_.image, false);
  if (found != expected)
    return bad_input(
        fmt::format("the prompt has {} places for images ({}) but the messages have {} "
                    "images; is {} written in a text?",
                    found, vision_.image, expected, vision_.image));
  return text;
}

Result<Prompt> make_prompt(const ChatFormat& format, const Tokenizer& tokenizer,
                           std::span<const ChatMessage> messages, const ChatOptions& options) {
  auto text = format.render(messages, options);
  if (!text) return text.error();
  auto ids = tokenizer.encode(*text, options.keep_going);
  if (!ids) return ids.error();
  Prompt prompt{std::move(text->bytes), std::move(*ids), {}};
  const size_t expected = count_images(messages);
  if (expected == 0) return prompt;
  const auto image = tokenizer.find(format.vision().image);
  if (!image)
    return bad_input(
        fmt::format("the tokenizer has no token {} for images; use that of a "
                    "vision-language model",
                    format.vision().image));
  for (size_t i = 0; i < prompt.ids.size(); ++i)
    if (prompt.ids[i] == *image) prompt.images.push_back(i);
  if (prompt.images.size() != expected)
    return bad_input(
        fmt::format("the prompt's text has {} images and its tokens {}; is {} a token "
                    "of its own in this tokenizer?",
                    expected, prompt.images.size(), format.vision().image));
  return prompt;
}

Status check_tokenizer(const Tokenizer& tokenizer, const ModelConfig& model,
                       const VisionTokens& vision) {
  if (tokenizer.id_end() > model.text.vocab_size)
    return bad_input(
        fmt::format("the tokenizer has ids up to {}, but text_config.vocab_size of config.json is "
                    "{}; use the tokenizer.json that belongs to the model",
                    tokenizer.id_end() - 1, model.text.vocab_size));
  struct Named {
    const char* key;
    int id;
    const std::string& text;
  };
  for (const Named& token :
       {Named{"image_token_id", model.image_token_id, vision.image},
        Named{"vision_start_token_id", model.vision_start_token_id, vision.start},
        Named{"vision_end_token_id", model.vision_end_token_id, vision.end}}) {
    const std::optional<int> found = tokenizer.find(token.text);
    if (found == token.id) continue;
    return bad_input(
        fmt::format("{} of config.json is {}, but {} {} in the tokenizer; use the tokenizer.json "
                    "that belongs to the model",
                    token.key, token.id, token.text,
                    found ? fmt::format("is {}", *found) : std::string("is no token")));
  }
  return Done{};
}

}  // namespace fovea
