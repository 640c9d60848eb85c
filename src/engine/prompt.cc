// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "language/positions.h"

namespace fovea {
namespace {

ChatTurn chat_turn(const Turn& turn) {
  ChatTurn chat{turn.role, {}};
  for (const Part& part : turn.parts)
    chat.parts.push_back(part.image >= 0 ? image_part() : text_part(part.text));
  return chat;
}

// Appends the tokens of one image; their positions come later.
void append_image(TokenPrompt& prompt, int image, int id, const ImageView& view) {
  const int64_t begin = prompt.tokens();
  for (const Encoded* part : {&view.glance, &view.look}) {
    if (part->tokens.count == 0) continue;
    prompt.visual.push_back({prompt.ids.size(), &part->tokens, 0, part->tokens.count});
    for (int i = 0; i < part->tokens.count; ++i) {
      prompt.ids.push_back(id);
      prompt.keys.push_back({id, image, part->number, i, {}});
    }
  }
  prompt.images.push_back({image, begin, prompt.tokens()});
}

void place(TokenPrompt& prompt, std::span<const ImageView> views) {
  std::vector<std::vector<Cell>> cells;
  std::vector<ImageSpan> spans;
  cells.reserve(prompt.images.size());  // spans point into it
  for (const ImageRange& range : prompt.images) {
    const ImageView& view = views[static_cast<size_t>(range.image)];
    cells.push_back(view.glance.cells);
    cells.back().insert(cells.back().end(), view.look.cells.begin(), view.look.cells.end());
    spans.push_back(
        {static_cast<size_t>(range.begin), cells.back(), grid_at(view.prepared->canvas(), 0)});
  }
  const PromptPositions placed = prompt_positions(prompt.ids.size(), spans);
  for (size_t i = 0; i < prompt.keys.size(); ++i) prompt.keys[i].position = placed.tokens[i];
  prompt.next_position = placed.next;
}

}  // namespace

Result<std::vector<int>> images_of(std::span<const Turn> turns, size_t count) {
  std::vector<int> images;
  for (const Turn& turn : turns) {
    if (turn.role != "system" && turn.role != "user" && turn.role != "assistant")
      return bad_input(fmt::format("a turn of the role {}: use system, user or assistant",
                                   in_quotes(turn.role)));
    for (const Part& part : turn.parts) {
      if (part.image < 0) continue;
      if (static_cast<size_t>(part.image) >= count)
        return bad_input(fmt::format("a turn shows image {}, but the session has {} (from 0)",
                                     part.image, count));
      if (std::find(images.begin(), images.end(), part.image) == images.end())
        images.push_back(part.image);
    }
  }
  return images;
}

Result<TokenPrompt> make_token_prompt(const Model& model, std::span<const Turn> turns,
                                      std::span<const ImageView> views) {
  std::vector<ChatTurn> chat;
  std::vector<int> shown;
  for (const Turn& turn : turns) {
    chat.push_back(chat_turn(turn));
    for (const Part& part : turn.parts)
      if (part.image >= 0) shown.push_back(part.image);
  }
  const Words& words = *model.words.get();
  auto written = make_prompt(words.chat, words.tokenizer, chat);
  if (!written) return written.error();

  TokenPrompt prompt;
  size_t next_image = 0;
  for (size_t i = 0; i < written->ids.size(); ++i) {
    const int id = written->ids[i];
    if (next_image < written->images.size() && written->images[next_image] == i) {
      const int image = shown[next_image++];
      append_image(prompt, image, id, views[static_cast<size_t>(image)]);
    } else {
      prompt.ids.push_back(id);
      prompt.keys.push_back({id, -1, 0, 0, {}});
    }
  }
  place(prompt, views);
  prompt.text = std::move(written->text);
  prompt.text_ids = std::move(written->ids);
  return prompt;
}

RunStorage run_from(const TokenPrompt& prompt, int64_t begin) {
  RunStorage part;
  for (auto key = prompt.keys.begin() + begin; key != prompt.keys.end(); ++key)
    part.positions.push_back(key->position);
  for (VisualSpan span : prompt.visual) {
    const auto skip =
        static_cast<int>(std::clamp<int64_t>(begin - static_cast<int64_t>(span.at), 0, span.count));
    if (skip == span.count) continue;
    span.at += static_cast<size_t>(skip) - static_cast<size_t>(begin);
    span.first += skip;
    span.count -= skip;
    part.visual.push_back(span);
  }
  part.run = {std::span(prompt.ids).subspan(static_cast<size_t>(begin)), part.positions,
              part.visual};
  return part;
}

}  // namespace fovea
