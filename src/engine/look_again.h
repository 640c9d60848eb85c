// SPDX-License-Identifier: Apache-2.0
// A look that an answer takes half-way: its cells are read where the answer stands.
#pragma once

#include <span>
#include <vector>

#include "engine/prompt.h"
#include "engine/view.h"

namespace fovea {

// Whether an answer may look again before a token.
bool may_look_again(const AskOptions& options);

// Tokens that go into the memory before the answer's last one, which is read once more behind them.
// They stand where their image stands, so that no position moves.
struct AddedTokens {
  std::vector<int> ids;
  std::vector<TokenPosition> positions;
  std::vector<VisualSpan> visual;
  std::vector<TokenKey> keys;

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
};

// What a view showed before: so many parts, of a canvas of this grid.
struct Shown {
  size_t parts = 0;
  Grid grid;
};

// The cells that views show since then, for each of the images.
AddedTokens added_tokens(const TokenPrompt& prompt, std::span<const ImageView> views,
                         std::span<const int> images, std::span<const Shown> shown);

}  // namespace fovea
