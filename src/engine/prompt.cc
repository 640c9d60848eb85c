// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/stop_loops.h"
#include "base/text.h"
#include "language/positions.h"

namespace fovea {
namespace {

// What stands for one placeholder: the parts of an image that are in it, or a crop of it.
struct Placeholder {
  int image = 0;
  std::vector<const Encoded*> parts;
  std::vector<Cell> cells;  // where they lie on `grid`
  Grid grid;
  bool past = false;

  bool is_crop() const { return parts.size() == 1 && parts.front()->is_crop(); }
};

Placeholder placeholder_of(int image, const ImageView& view) {
  Placeholder whole{.image = image, .grid = grid_at(view.prepared->canvas(), 0)};
  for (const Encoded& part : view.shown_parts()) {
    if (part.is_crop()) continue;
    whole.parts.push_back(&part);
    whole.cells.insert(whole.cells.end(), part.cells.begin(), part.cells.end());
  }
  return whole;
}

// What is no crop is passed over.
void append_crops(int image, std::span<const Encoded> parts, bool past,
                  std::vector<Placeholder>& all) {
  for (const Encoded& part : parts) {
    if (!part.is_crop()) continue;
    const auto [top, bottom, left, right] = part.crop;
    Placeholder crop{image, {&part}, {}, {bottom - top, right - left}, past};
    for (const Cell& cell : part.cells) crop.cells.push_back({0, cell.row - top, cell.col - left});
    all.push_back(std::move(crop));
  }
}

// The question: the last message of a person, or of whom there is.
size_t question_at(std::span<const Message> messages) {
  for (size_t i = messages.size(); i > 0; --i)
    if (messages[i - 1].role == "user") return i - 1;
  return messages.size() - 1;
}

// The images and crops of a conversation, message by message, and the text around them.
class Conversation {
 public:
  Conversation(std::span<const Message> messages, std::span<const int> images,
               std::span<const ImageView> views, bool append_only)
      : images_(images), views_(views), append_only_(append_only) {
    const std::vector<Digest> digests = append_only ? digests_of(messages) : std::vector<Digest>();
    question_ = question_at(messages);
    for (size_t i = 0; i < messages.size(); ++i)
      add(messages[i], i == question_, append_only ? digests[i] : Digest());
  }

  const std::vector<ChatMessage>& chat() const { return chat_; }
  std::vector<Placeholder>& shown() { return shown_; }
  size_t question() const { return question_; }  // the message that asks

 private:
  void add(const Message& message, bool asks, const Digest& digest) {
    ChatMessage& written = chat_.emplace_back(ChatMessage{message.role, {}, message.tool_calls});
    const auto show = [&](std::vector<Placeholder> some) {
      for (Placeholder& one : some) {
        written.parts.push_back(image_part());
        shown_.push_back(std::move(one));
      }
    };
    if (append_only_)
      for (const int image : images_)
        if (!shows(message, image)) show(crops_of(image, asks, digest));
    for (const Part& part : message.parts) {
      if (part.image < 0) {
        written.parts.push_back(text_part(part.text));
        continue;
      }
      std::vector<Placeholder> all = {placeholder_of(part.image, view(part.image))};
      for (Placeholder& crop : crops_of(part.image, asks, digest)) all.push_back(std::move(crop));
      show(std::move(all));
    }
  }

  const ImageView& view(int image) const { return views_[static_cast<size_t>(image)]; }
  static bool shows(const Message& message, int image) {
    return std::any_of(message.parts.begin(), message.parts.end(),
                       [&](const Part& part) { return part.image == image; });
  }
  std::vector<Placeholder> crops_of(int image, bool asks, const Digest& message) const {
    std::vector<Placeholder> all;
    if (asks || !append_only_)
      append_crops(image, view(image).shown_parts(), false, all);
    else
      append_crops(image, past_crops(view(image), message), true, all);
    return all;
  }

  std::span<const int> images_;
  std::span<const ImageView> views_;
  bool append_only_;
  size_t question_ = 0;
  std::vector<ChatMessage> chat_;
  std::vector<Placeholder> shown_;
};

// How many of `ids` stand before the message that asks: so many do not depend on what it says.
Result<size_t> ids_before_question(const Words& words, const Conversation& conversation,
                                   const ChatOptions& how, std::span<const int> ids) {
  std::vector<ChatMessage> other = conversation.chat();
  other[conversation.question()].parts = {text_part("\x1f")};
  const auto written = make_prompt(words.chat, words.tokenizer, other, how);
  if (!written) return written.error();
  const auto same = std::mismatch(ids.begin(), ids.end(), written->ids.begin(), written->ids.end());
  return static_cast<size_t>(same.first - ids.begin());
}

// Appends the tokens of one image; their positions come later.
void append_image(TokenPrompt& prompt, int id, const Placeholder& shown) {
  ImageRange range{
      .image = shown.image, .crop = shown.is_crop(), .past = shown.past, .begin = prompt.tokens()};
  range.glance_end = range.begin;
  for (const Encoded* part : shown.parts) {
    prompt.visual.push_back({prompt.ids.size(), part->tokens.get(), 0, part->tokens->count});
    for (int i = 0; i < part->tokens->count; ++i) {
      prompt.ids.push_back(id);
      prompt.keys.push_back({id, shown.image, part->number, i, {}, part->content});
    }
    if (part == shown.parts.front() && part->kept) range.glance_end = prompt.tokens();
    prompt.part_ends.push_back(prompt.tokens());
  }
  range.end = prompt.tokens();
  prompt.images.push_back(range);
}

void place(TokenPrompt& prompt, std::span<const Placeholder> shown) {
  std::vector<ImageSpan> spans;
  spans.reserve(shown.size());
  for (size_t i = 0; i < shown.size(); ++i)
    spans.push_back({static_cast<size_t>(prompt.images[i].begin), shown[i].cells, shown[i].grid});
  const PromptPositions placed = prompt_positions(prompt.ids.size(), spans);
  for (size_t i = 0; i < prompt.keys.size(); ++i) prompt.keys[i].position = placed.tokens[i];
  prompt.next_position = placed.next;
}

}  // namespace

Result<std::vector<int>> images_of(std::span<const Message> messages, size_t count) {
  std::vector<int> images;
  for (const Message& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant" &&
        message.role != "tool")
      return bad_input(fmt::format("a message of the role {}: use system, user, assistant or tool",
                                   in_quotes(message.role)));
    for (const Part& part : message.parts) {
      if (part.image < 0) continue;
      if (static_cast<size_t>(part.image) >= count)
        return bad_input(fmt::format("a message shows image {}, but the session has {} (from 0)",
                                     part.image, count));
      if (std::find(images.begin(), images.end(), part.image) == images.end())
        images.push_back(part.image);
    }
  }
  return images;
}

std::vector<Digest> digests_of(std::span<const Message> messages) {
  std::vector<Digest> digests;
  Digest before;
  for (const Message& message : messages) {
    Hasher hasher;
    hasher.text("message").value(before).text(message.role).text(message.tool_calls);
    for (const Part& part : message.parts) hasher.value(part.image).text(part.text);
    before = hasher.finish();
    digests.push_back(before);
  }
  return digests;
}

Digest digest_of_question(std::span<const Message> messages) {
  return digests_of(messages)[question_at(messages)];
}

int64_t past_tokens(std::span<const Message> messages, std::span<const ImageView> views,
                    int64_t around_each) {
  int64_t tokens = 0;
  const std::vector<Digest> digests = digests_of(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    if (i == question_at(messages)) continue;
    for (size_t image = 0; image < views.size(); ++image) {
      const auto showings =
          std::count_if(messages[i].parts.begin(), messages[i].parts.end(),
                        [&](const Part& part) { return part.image == static_cast<int>(image); });
      for (const Encoded& crop : past_crops(views[image], digests[i]))
        tokens += std::max<int64_t>(1, showings) *
                  (static_cast<int64_t>(crop.cells.size()) + around_each);
    }
  }
  return tokens;
}

Result<TokenPrompt> make_token_prompt(const PromptInput& input) {
  const Model& model = input.model;
  Conversation conversation(input.messages, input.images, input.views, input.append_only);
  const Words& words = *model.words.get();
  const ChatOptions how{.enable_thinking = input.options.enable_thinking,
                        .allow_special = input.options.allow_special,
                        .tools = input.options.tools,
                        .template_options = input.options.template_options,
                        .keep_going = input.keep_going};
  auto written = make_prompt(words.chat, words.tokenizer, conversation.chat(), how);
  if (!written) return written.error();
  size_t before_question = 0;
  if (input.append_only && conversation.question() > 0 && input.before == nullptr) {
    const auto before = ids_before_question(words, conversation, how, written->ids);
    if (!before) return before.error();
    before_question = *before;
  }

  TokenPrompt prompt;
  size_t next_image = 0;
  for (size_t i = 0; i < written->ids.size(); ++i) {
    if (i == before_question) prompt.question_begin = prompt.tokens();
    const int id = written->ids[i];
    if (next_image < written->images.size() && written->images[next_image] == i) {
      append_image(prompt, id, conversation.shown()[next_image++]);
    } else {
      prompt.ids.push_back(id);
      prompt.keys.push_back({id, -1, 0, 0, {}});
    }
  }
  if (input.before != nullptr) prompt.question_begin = input.before->question_begin;
  place(prompt, conversation.shown());
  prompt.text = std::move(written->text);
  prompt.text_ids = std::move(written->ids);
  return prompt;
}

bool TextCount::must_be_counted() const {
  const bool has_json = !options_.tools.empty() || !options_.template_options.empty() ||
                        std::any_of(turns_.begin(), turns_.end(), [](const Message& message) {
                          return !message.tool_calls.empty();
                        });
  return has_json || model_.words.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

int64_t TextCount::bytes() const {
  size_t bytes = options_.tools.size() + options_.template_options.size();
  for (const Message& message : turns_) {
    bytes += message.tool_calls.size();
    for (const Part& part : message.parts) bytes += part.text.size();
  }
  return static_cast<int64_t>(bytes);
}

const Result<int64_t>& TextCount::tokens() {
  if (!tokens_) tokens_.emplace(count());
  return *tokens_;
}

Result<int64_t> TextCount::count() const {
  const Result<Words>& words = model_.words.get();
  if (!words) return words.error();
  std::vector<ChatMessage> chat;
  for (const Message& message : turns_) {
    ChatMessage& written = chat.emplace_back(ChatMessage{message.role, {}, message.tool_calls});
    for (const Part& part : message.parts)
      written.parts.push_back(part.image < 0 ? text_part(part.text) : image_part());
  }
  // Most texts are counted in less time than anybody need be asked after.
  auto asked = std::chrono::steady_clock::now();
  const auto keep_going = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (now - asked < StopLoops::kAskEvery) return true;
    asked = now;
    return keep_going_();
  };
  const auto written = make_prompt(words->chat, words->tokenizer, chat,
                                   {.enable_thinking = options_.enable_thinking,
                                    .allow_special = options_.allow_special,
                                    .tools = options_.tools,
                                    .template_options = options_.template_options,
                                    .keep_going = keep_going});
  if (!written) return written.error();
  return static_cast<int64_t>(written->ids.size() - written->images.size());
}

std::vector<TokenRange> visual_ranges(const TokenPrompt& prompt) {
  std::vector<TokenRange> ranges;
  for (const VisualSpan& span : prompt.visual) {
    const auto at = static_cast<int64_t>(span.at);
    ranges.push_back({at, at + span.count});
  }
  return ranges;
}

RunStorage run_of(const TokenPrompt& prompt, int64_t begin, int64_t end) {
  RunStorage part;
  for (int64_t i = begin; i < end; ++i)
    part.positions.push_back(prompt.keys[static_cast<size_t>(i)].position);
  for (VisualSpan span : prompt.visual) {
    const auto at = static_cast<int64_t>(span.at);
    const int64_t from = std::max(at, begin);
    const int64_t to = std::min(at + span.count, end);
    if (from >= to) continue;
    part.visual.push_back({static_cast<size_t>(from - begin), span.tokens,
                           span.first + static_cast<int>(from - at), static_cast<int>(to - from)});
  }
  part.run = {
      std::span(prompt.ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
      part.positions, part.visual};
  return part;
}

}  // namespace fovea
