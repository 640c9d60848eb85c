// SPDX-License-Identifier: Apache-2.0
#include "engine/forget.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "engine/attention_settings.h"

namespace fovea {
namespace {

// What a policy reads of a layer: of all keys in the range that was read out, the visual ones.
std::vector<float> visual_mass(const VisualPart& part, const KeyReadout& read, size_t layer) {
  std::vector<float> mass;
  if (read.layers.empty()) return mass;
  mass.reserve(part.at.size());
  for (const int64_t at : part.at)
    mass.push_back(read.layers[layer].mass[static_cast<size_t>(at - read.key_begin)]);
  return mass;
}

// Text between images stays: it gets rows of its own among theirs.
KeptRows with_text(const KeptRows& visual, const VisualPart& part) {
  KeptRows all;
  all.row_of.reserve(static_cast<size_t>(part.end() - part.begin()));
  std::vector<int32_t> number(static_cast<size_t>(visual.rows), KeptRows::kForgotten);
  size_t next = 0;
  for (int64_t at = part.begin(); at < part.end(); ++at) {
    if (part.at[next] != at) {
      all.row_of.push_back(static_cast<int32_t>(all.rows++));
      continue;
    }
    const int32_t row = visual.row_of[next++];
    if (row == KeptRows::kForgotten) {
      all.row_of.push_back(row);
      continue;
    }
    int32_t& own = number[static_cast<size_t>(row)];
    if (own == KeptRows::kForgotten) own = static_cast<int32_t>(all.rows++);
    all.row_of.push_back(own);
  }
  return all;
}

}  // namespace

Status check_forget(const Model& model, const AskOptions& options) {
  const auto settings = forget_settings(options.keep, options.forget, options.seed);
  if (!settings) return settings.error();
  if (!settings->forgets()) {
    if (options.forget.empty()) return Done{};
    return bad_input(fmt::format(
        "forget \"{}\" forgets nothing while keep is 1; give keep, the share of visual keys that "
        "stays",
        options.forget));
  }
  if (!model.pool)
    return bad_input(
        fmt::format("keep {}: {} keeps all keys; leave it out, or choose the device cpu",
                    options.keep, model.device->description()));
  if (!text_attention(model, options).is_dense())
    return bad_input(
        fmt::format("keep {}: keys are forgotten where tokens attend to all; leave keep or the "
                    "text's attention {} out",
                    options.keep, options.text_attention));
  return Done{};
}

ForgetSettings forget_of(const AskOptions& options) {
  return *forget_settings(options.keep, options.forget, options.seed);
}

VisualPart visual_from(const TokenPrompt& prompt, int64_t from) {
  VisualPart part;
  for (const ImageRange& range : prompt.images) {
    for (int64_t at = std::max(range.begin, from); at < range.end; ++at) part.at.push_back(at);
    const auto end = static_cast<int64_t>(part.at.size());
    if (end > (part.image_ends.empty() ? 0 : part.image_ends.back()))
      part.image_ends.push_back(end);
  }
  return part;
}

std::vector<TokenLink> links_of(const TokenPrompt& prompt, const VisualPart& part) {
  std::vector<TokenLink> links;
  const auto position = [&](int32_t token) {
    return prompt.keys[static_cast<size_t>(part.at[static_cast<size_t>(token)])].position;
  };
  int32_t begin = 0;
  for (const int64_t image_end : part.image_ends) {
    const auto end = static_cast<int32_t>(image_end);
    std::vector<int32_t> order;
    for (int32_t token = begin; token < end; ++token) order.push_back(token);
    for (size_t i = 1; i < order.size(); ++i) links.push_back({order[i - 1], order[i]});
    // Behind each other in a column, of one size of cells: those of a row follow one another.
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const TokenPosition at_a = position(a);
      const TokenPosition at_b = position(b);
      return std::tie(at_a.col, at_a.row, a) < std::tie(at_b.col, at_b.row, b);
    });
    for (size_t i = 1; i < order.size(); ++i)
      if (position(order[i - 1]).col == position(order[i]).col)
        links.push_back({order[i - 1], order[i]});
    begin = end;
  }
  return links;
}

int64_t first_asking(const TokenPrompt& prompt, const VisualPart& part) {
  return std::max(part.end(), prompt.tokens() - kMostAskingTokens);
}

bool forget_keys(SessionState& state, const TokenPrompt& prompt, const KeyReadout& read,
                 Usage& usage) {
  DecoderMemory& memory = state.memory;
  const VisualPart part = visual_from(prompt, memory.forgotten_tokens);
  if (part.at.empty()) return false;
  const std::vector<TokenLink> links = state.forget.policy == ForgetPolicy::kMerge
                                           ? links_of(prompt, part)
                                           : std::vector<TokenLink>();
  std::vector<std::vector<float>> mass;
  std::vector<ForgetLayer> layers;
  for (size_t i = 0; i < memory.layers.size(); ++i) {
    mass.push_back(visual_mass(part, read, i));
    layers.push_back({.keys = memory.layers[i].view(), .first_row = -memory.missing(i)});
    if (!read.layers.empty()) layers.back().density = read.layers[i].density;
  }
  for (size_t i = 0; i < layers.size(); ++i) layers[i].mass = mass[i];
  const ForgetScene scene{part.at, part.image_ends, links, layers};
  const std::vector<KeptRows> visual = choose_rows(*state.model->threads, scene, state.forget);
  std::vector<KeptRows> kept;
  for (const KeptRows& one : visual) {
    usage.visual_keys_kept += one.rows;
    kept.push_back(with_text(one, part));
  }
  usage.visual_keys += scene.tokens() * static_cast<int64_t>(layers.size());
  usage.kv_bytes_before = static_cast<int64_t>(memory.bytes());
  memory.keep(part.begin(), kept);
  usage.kv_bytes_after = static_cast<int64_t>(memory.bytes());
  state.forgot_at = prompt.tokens() - 1;
  return true;
}

}  // namespace fovea
