// SPDX-License-Identifier: Apache-2.0
#include "language/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace fovea {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxFileBytes = uint64_t{16} << 20;

bool is_image(const ChatPart& part) { return part.kind == ChatPart::Kind::kImage; }

size_t count_images(std::span<const ChatTurn> turns) {
  size_t count = 0;
  for (const ChatTurn& turn : turns)
    count += static_cast<size_t>(std::count_if(turn.parts.begin(), turn.parts.end(), is_image));
  return count;
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

Json parts_json(const ChatTurn& turn) {
  Json parts = Json::array();
  for (const ChatPart& part : turn.parts)
    parts.push_back(is_image(part) ? Json{{"type", "image"}}
                                   : Json{{"type", "text"}, {"text", part.text}});
  return parts;
}

// A file's text; empty where there is no such file.
Result<std::string> read_if_there(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::string();
  const bool is_file = fs::is_regular_file(path, error);
  const uint64_t bytes = is_file ? fs::file_size(path, error) : 0;
  if (bytes > kMaxFileBytes)
    return bad_input(
        fmt::format("{} has {} bytes; at most {} are read", path.string(), bytes, kMaxFileBytes));
  std::string text(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!is_file || error || !file.read(text.data(), static_cast<std::streamsize>(bytes)))
    return bad_input(fmt::format("cannot read {}: is it a readable file?", path.string()));
  return text;
}

Result<Json> read_json_if_there(const fs::path& path) {
  const auto text = read_if_there(path);
  if (!text) return text.error();
  if (text->empty()) return Json::object();
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) return bad_input(fmt::format("{} is not a JSON object", path.string()));
  return json;
}

// The template of {"chat_template": ...}: a text, or a list of named ones, "default" among them.
std::string template_in(const Json& json) {
  const Json found = json.value("chat_template", Json());
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) return "";
  std::string chosen;
  for (const Json& one : found) {
    const Json name = one.is_object() ? one.value("name", Json()) : Json();
    const Json text = one.is_object() ? one.value("template", Json()) : Json();
    if (text.is_string() && (chosen.empty() || name == "default")) chosen = text.get<std::string>();
  }
  return chosen;
}

std::map<std::string, std::string> special_tokens_in(const Json& json) {
  std::map<std::string, std::string> special;
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    Json token = json.value(name, Json());
    if (token.is_object()) token = token.value("content", Json());
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
  const std::vector<ChatTurn> probe = {user_turn({image_part(), text_part("fovea probe")})};
  const auto text = format.render_template(probe, {}, true);
  format.knows_images_ =
      text && count_of(*text, vision.image) == 1 && count_of(*text, "fovea probe") == 1;
  return format;
}

Result<ChatFormat> ChatFormat::load(const std::string& folder, const VisionTokens& vision) {
  const fs::path path(folder);
  const auto config = read_json_if_there(path / "tokenizer_config.json");
  if (!config) return config.error();
  const auto processor = read_json_if_there(path / "chat_template.json");
  if (!processor) return processor.error();
  const auto file = read_if_there(path / "chat_template.jinja");
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

std::string ChatFormat::plain_text(const ChatTurn& turn) const {
  std::string text;
  for (const ChatPart& part : turn.parts)
    text += is_image(part) ? vision_.start + vision_.image + vision_.end : part.text;
  return text;
}

std::string ChatFormat::render_qwen(std::span<const ChatTurn> turns,
                                    const ChatOptions& options) const {
  std::string text;
  for (const ChatTurn& turn : turns)
    text += "<|im_start|>" + turn.role + "\n" + plain_text(turn) + "<|im_end|>\n";
  return options.add_generation_prompt ? text + "<|im_start|>assistant\n" : text;
}

Result<std::string> ChatFormat::render_template(std::span<const ChatTurn> turns,
                                                const ChatOptions& options, bool in_parts) const {
  Json messages = Json::array();
  for (const ChatTurn& turn : turns)
    messages.push_back(
        {{"role", turn.role}, {"content", in_parts ? parts_json(turn) : Json(plain_text(turn))}});
  Json variables = {{"messages", messages},
                    {"tools", nullptr},
                    {"documents", nullptr},
                    {"add_generation_prompt", options.add_generation_prompt}};
  if (options.enable_thinking) variables["enable_thinking"] = *options.enable_thinking;
  for (const auto& [name, token] : special_) variables[name] = token;
  return template_->render(variables);
}

Result<std::string> ChatFormat::render(std::span<const ChatTurn> turns,
                                       const ChatOptions& options) const {
  auto text = template_ ? render_template(turns, options, knows_images_)
                        : Result<std::string>(render_qwen(turns, options));
  if (!text) return text;
  const size_t expected = count_images(turns);
  const size_t found = count_of(*text, vision_.image);
  if (found != expected)
    return bad_input(
        fmt::format("the prompt has {} places for images ({}) but the turns have {} "
                    "images; is {} written in a text?",
                    found, vision_.image, expected, vision_.image));
  return text;
}

Result<Prompt> make_prompt(const ChatFormat& format, const Tokenizer& tokenizer,
                           std::span<const ChatTurn> turns, const ChatOptions& options) {
  auto text = format.render(turns, options);
  if (!text) return text.error();
  auto ids = tokenizer.encode(*text);
  if (!ids) return ids.error();
  Prompt prompt{std::move(*text), std::move(*ids), {}};
  const size_t expected = count_images(turns);
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
