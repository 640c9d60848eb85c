// SPDX-License-Identifier: Apache-2.0
// Turns and views -> the tokens of a run, and what tells two of them apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/view.h"
#include "language/decoder.h"

namespace fovea {

// Two prompts whose keys agree up to a place have the same keys and values up to there.
struct TokenKey {
  int id = 0;
  int image = -1;        // of a visual token
  int64_t encoding = 0;  // Encoded::number
  int index = 0;         // in that encoding
  TokenPosition position;

  friend bool operator==(const TokenKey&, const TokenKey&) = default;
};

// The tokens of an image in a prompt, or those of a crop of it, which is an image there too.
struct ImageRange {
  int image = 0;
  bool crop = false;
  int64_t begin = 0;
  int64_t glance_end = 0;  // looks follow; `begin` for plans without a glance, and for crops
  int64_t end = 0;
};

struct TokenPrompt {
  std::string text;                // one placeholder for each image
  std::vector<int> text_ids;       // likewise
  std::vector<int> ids;            // with every visual token
  std::vector<TokenKey> keys;      // [ids]
  std::vector<ImageRange> images;  // in their order
  std::vector<int64_t> part_ends;  // of everything that was encoded in one piece
  std::vector<VisualSpan> visual;  // `at` counts from the beginning of the prompt
  float next_position = 0;         // of the first token of the answer

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
};

// The images that turns name, each once; an error names one that the session does not have.
Result<std::vector<int>> images_of(std::span<const Turn> turns, size_t count);

// The views must hold their tokens already; those of the parts they show are taken. The crops of an
// image follow it as more images, wherever it is shown.
Result<TokenPrompt> make_token_prompt(const Model& model, std::span<const Turn> turns,
                                      std::span<const ImageView> views);

// Tokens [begin, end) of a prompt, as the decoder takes them. The vectors live in the result.
struct RunStorage {
  std::vector<TokenPosition> positions;
  std::vector<VisualSpan> visual;
  TokenRun run;
};
RunStorage run_of(const TokenPrompt& prompt, int64_t begin, int64_t end);

}  // namespace fovea
