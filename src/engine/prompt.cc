// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt.h"

#include <fmt/format.h>

#include <algorithm>

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

  bool is_crop() const { return parts.size() == 1 && parts.front()->is_crop(); }
};

std::vector<Placeholder> placeholders_of(int image, const ImageView& view) {
  std::vector<Placeholder> all = {{image, {}, {}, grid_at(view.prepared->canvas(), 0)}};
  for (const Encoded& part : view.shown_parts()) {
    if (!part.is_crop()) {
      all.front().parts.push_back(&part);
      all.front().cells.insert(all.front().cells.end(), part.cells.begin(), part.cells.end());
      continue;
    }
    const auto [top, bottom, left, right] = part.crop;
    Placeholder crop{image, {&part}, {}, {bottom - top, right - left}};
    for (const Cell& cell : part.cells) crop.cells.push_back({0, cell.row - top, cell.col - left});
    all.push_back(std::move(crop));
  }
  return all;
}

// Appends the tokens of one image; their positions come later.
void append_image(TokenPrompt& prompt, int id, const Placeholder& shown) {
  ImageRange range{.image = shown.image, .crop = shown.is_crop(), .begin = prompt.tokens()};
  range.glance_end = range.begin;
  for (const Encoded* part : shown.parts) {
    prompt.visual.push_back({prompt.ids.size(), &part->tokens, 0, part->tokens.count});
    for (int i = 0; i < part->tokens.count; ++i) {
      prompt.ids.push_back(id);
      prompt.keys.push_back({id, shown.image, part->number, i, {}});
    }
    if (part == shown.parts.front() && part->kept) range.glance_end = prompt.tokens();
    prompt.part_ends.push_back(prompt.tokens());
  }
  range.end = prompt.tokens();
  prompt.images.push_back(range);
}

void place(TokenPrompt& prompt, std::span<const Placeholder> shown) {
  std::vector<ImageSpan> spans;
  for (size_t i = 0; i < shown.size(); ++i)
    spans.push_back({static_cast<size_t>(prompt.images[i].begin), shown[i].cells, shown[i].grid});
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
  std::vector<Placeholder> shown;
  for (const Turn& turn : turns) {
    ChatTurn& written = chat.emplace_back(ChatTurn{turn.role, {}});
    for (const Part& part : turn.parts) {
      if (part.image < 0) {
        written.parts.push_back(text_part(part.text));
        continue;
      }
      for (Placeholder& one : placeholders_of(part.image, views[static_cast<size_t>(part.image)])) {
        written.parts.push_back(image_part());
        shown.push_back(std::move(one));
      }
    }
  }
  const Words& words = *model.words.get();
  auto written = make_prompt(words.chat, words.tokenizer, chat);
  if (!written) return written.error();

  TokenPrompt prompt;
  size_t next_image = 0;
  for (size_t i = 0; i < written->ids.size(); ++i) {
    const int id = written->ids[i];
    if (next_image < written->images.size() && written->images[next_image] == i) {
      append_image(prompt, id, shown[next_image++]);
    } else {
      prompt.ids.push_back(id);
      prompt.keys.push_back({id, -1, 0, 0, {}});
    }
  }
  place(prompt, shown);
  prompt.text = std::move(written->text);
  prompt.text_ids = std::move(written->ids);
  return prompt;
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
