// SPDX-License-Identifier: Apache-2.0
#include "engine/room.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "engine/answer_parts.h"
#include "engine/attention_settings.h"
#include "memory/key_values.h"

namespace fovea {
namespace {

// While a page that it shares is copied, a request holds both.
constexpr int64_t kForACopy = 1;

// Without a vocabulary, a token of text is taken to be a byte at least, and a template to write no
// more than this around each part.
constexpr int64_t kAroundAPart = 64;
// An image's crops are images too, each with tokens around it.
constexpr int64_t kAroundCrops = 64;
constexpr int64_t kAroundACrop = 8;

int64_t bound_text(std::span<const Message> messages) {
  int64_t tokens = kAroundAPart;
  for (const Message& message : messages)
    for (const Part& part : message.parts)
      tokens += kAroundAPart + static_cast<int64_t>(part.text.size());
  return tokens;
}

int64_t layer_pages(const Model& model, int64_t tokens, KeyFormat format) {
  const TextConfig& text = model.config().text;
  return pages_for(tokens, model.pool->page_bytes(), text.num_kv_heads, text.head_dim, format);
}

// Where keys are forgotten, those of a layer that stay move while the others are there.
int64_t decoder_pages(const Model& model, int64_t tokens, const AskOptions& options) {
  const TextConfig& text = model.config().text;
  tokens = std::min<int64_t>(tokens, text.max_positions);
  const KeyFormats formats = stored_formats(model, options);
  int64_t pages = kForACopy;
  int64_t most = 0;
  for (int i = 0; i < text.num_layers; ++i) {
    const int64_t layer = layer_pages(model, tokens, formats.of(i, text.num_layers));
    pages += layer;
    most = std::max(most, layer);
  }
  return pages + (options.keep < 1 ? most : 0);
}

// Of the glance and what attends to it, where that is kept, and of one block for what is not.
int64_t tower_pages(const Model& model, const MostTokens& tokens) {
  const VisionConfig& vision = model.config().vision;
  const int64_t block = pages_for(tokens.count * kPatchesPerCell, model.pool->page_bytes(),
                                  vision.num_heads, vision.head_dim);
  return kForACopy + block + (tokens.kept ? vision.depth * block : 0);
}

// What is promised to other requests is not there for this one.
Error no_room(const Model& model, int64_t pages, int64_t promised, int64_t tokens) {
  const MemoryUsage usage = model.pool->usage();
  const int64_t needed = pages * model.pool->page_bytes();
  const int64_t left = usage.capacity - usage.reserved + promised * model.pool->page_bytes();
  const std::string why = needed <= left ? "which the system does not give"
                                         : fmt::format("but {} of {} are left", human_bytes(left),
                                                       human_bytes(usage.capacity));
  return because(
      Error::Reason::kRoom,
      failed(fmt::format("keys and values of {} tokens and their images may need {} of memory, {}; "
                         "try a smaller budget, a shorter answer or more memory",
                         with_commas(tokens), human_bytes(needed), why)));
}

}  // namespace

Room::~Room() {
  if (!state_.memory.pages) return;
  (void)state_.memory.pages->resize(0);  // to what is held
  for (ImageView& view : state_.views) (void)view.memory.pages->resize(0);
}

Status Room::reserve(std::span<const Message> messages, std::span<const int> images,
                     const AskOptions& options, TextCount& text) {
  if (!state_.memory.pages) return Done{};
  // Until the vocabulary is there a bound may do.
  if (!text.must_be_counted() && try_to_reserve(messages, images, options, bound_text(messages)))
    return Done{};
  may_come_ = false;
  if (!text.tokens()) return text.tokens().error();
  return try_to_reserve(messages, images, options, *text.tokens());
}

Status Room::try_to_reserve(std::span<const Message> messages, std::span<const int> images,
                            const AskOptions& options, int64_t text_tokens) {
  const Model& model = *state_.model;
  std::vector<MostTokens> of_image(state_.views.size());
  for (const int image : images) {
    const auto index = static_cast<size_t>(image);
    of_image[index] = most_tokens(model, state_.views[index], options, index);
  }
  int64_t tokens = text_tokens + options.max_tokens;
  for (const Message& message : messages)
    for (const Part& part : message.parts)
      if (part.image >= 0) tokens += of_image[static_cast<size_t>(part.image)].count + kAroundCrops;
  if (options.keep_looks) tokens += past_tokens(messages, state_.views, kAroundACrop);
  tokens = std::min<int64_t>(tokens, model.config().text.max_positions);

  int64_t pages = decoder_pages(model, tokens, options);
  int64_t promised = state_.memory.pages->pages();
  bool fits = static_cast<bool>(state_.memory.pages->resize(pages));
  for (const int image : images) {
    Reservation& of_view = *state_.views[static_cast<size_t>(image)].memory.pages;
    const int64_t more = tower_pages(model, of_image[static_cast<size_t>(image)]);
    promised += of_view.pages();
    pages += more;
    fits = fits && of_view.resize(more);
  }
  if (fits) return Done{};
  // Nothing of it was used yet.
  (void)state_.memory.pages->resize(0);
  for (const int image : images)
    (void)state_.views[static_cast<size_t>(image)].memory.pages->resize(0);
  may_come_ = pages * model.pool->page_bytes() <= model.pool->usage().capacity;
  return no_room(model, pages, promised, tokens);
}

Status Room::reserve(const TokenPrompt& prompt, const AskOptions& options) {
  const Model& model = *state_.model;
  if (!state_.memory.pages) return Done{};
  const int64_t tokens = prompt.tokens() + room_for_answer(model, prompt, options);
  Reservation& reserved = *state_.memory.pages;
  const int64_t pages = decoder_pages(model, tokens, options);
  if (pages <= reserved.pages() || reserved.resize(pages)) return Done{};
  return no_room(model, pages, reserved.pages(), tokens);
}

void Room::shrink(const TokenPrompt& prompt, const AskOptions& options) {
  if (!state_.memory.pages) return;
  const int64_t answer = room_for_answer(*state_.model, prompt, options);
  int64_t pages = kForACopy;
  for (const KeyValues& layer : state_.memory.layers)
    pages += layer_pages(*state_.model, layer.size() + answer, layer.format());
  if (pages < state_.memory.pages->pages()) (void)state_.memory.pages->resize(pages);
}

}  // namespace fovea
