// SPDX-License-Identifier: Apache-2.0
#include "engine/look_again.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "language/positions.h"

namespace fovea {
namespace {

// Where a prompt shows an image last.
const ImageRange& place_of(const TokenPrompt& prompt, int image) {
  const auto found =
      std::find_if(prompt.images.rbegin(), prompt.images.rend(),
                   [&](const ImageRange& range) { return range.image == image && !range.crop; });
  FOVEA_CHECK(found != prompt.images.rend());
  return *found;
}

}  // namespace

bool may_look_again(const AskOptions& options) {
  return options.relook > 0 || options.look_again != nullptr;
}

AddedTokens added_tokens(const TokenPrompt& prompt, std::span<const ImageView> views,
                         std::span<const int> images, std::span<const Shown> shown) {
  AddedTokens added;
  for (size_t i = 0; i < images.size(); ++i) {
    const ImageView& view = views[static_cast<size_t>(images[i])];
    const ImageRange& range = place_of(prompt, images[i]);
    const auto first = static_cast<size_t>(range.begin);
    for (const Encoded& part : view.shown_parts().subspan(shown[i].parts)) {
      // All cells of an image have its time; what follows it has its place already.
      const ImageSpan span{0, part.cells, shown[i].grid};
      const PromptPositions placed =
          prompt_positions(part.cells.size(), {&span, 1}, prompt.keys[first].position.time);
      added.visual.push_back({added.ids.size(), part.tokens.get(), 0, part.tokens->count});
      for (int k = 0; k < part.tokens->count; ++k) {
        const TokenPosition& position = placed.tokens[static_cast<size_t>(k)];
        added.ids.push_back(prompt.ids[first]);
        added.positions.push_back(position);
        added.keys.push_back(
            {prompt.ids[first], images[i], part.number, k, position, part.content});
      }
    }
  }
  return added;
}

}  // namespace fovea
