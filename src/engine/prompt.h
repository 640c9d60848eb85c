// SPDX-License-Identifier: Apache-2.0
// Messages and views -> the tokens of a run, and what tells two of them apart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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
  Digest content = {};  // Encoded::content

  friend bool operator==(const TokenKey&, const TokenKey&) = default;
};

// The tokens of an image in a prompt, or those of a crop of it, which is an image there too.
struct ImageRange {
  int image = 0;
  bool crop = false;
  bool past = false;  // a crop of an earlier question
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
  // Of an append-only conversation, where the message begins that asks; 0: it is all one.
  int64_t question_begin = 0;

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
};

// The images that messages name, each once; an error names one that the session does not have.
Result<std::vector<int>> images_of(std::span<const Message> messages, size_t count);

// Of each message, with all that stand before it; and that of the message that asks.
std::vector<Digest> digests_of(std::span<const Message> messages);
Digest digest_of_question(std::span<const Message> messages);

// The tokens of crops of earlier questions that an append-only prompt of these messages shows, and
// so many more around each.
int64_t past_tokens(std::span<const Message> messages, std::span<const ImageView> views,
                    int64_t around_each = 0);

struct PromptInput {
  const Model& model;
  std::span<const Message> messages;
  std::span<const int> images;  // that they name
  // They must hold their tokens already; those of the parts they show are taken. The crops of an
  // image follow it as more images, wherever it is shown.
  std::span<const ImageView> views;
  const AskOptions& options;
  // Crops stand only in the message whose question they belong to, at its beginning where the image
  // is not in it; and those of earlier questions stay in theirs, so that a prompt begins with the
  // prompt before it.
  bool append_only = false;
  const TokenPrompt* before = nullptr;  // the one of the round before
  const std::function<bool()>& keep_going;
};
Result<TokenPrompt> make_token_prompt(const PromptInput& input);

// Counts the tokens of text in a prompt of some messages, before anything is known of their images
// but that each is one. It does so once, when it is asked for, since that takes the vocabulary,
// which may still be on its way. What it is made of must outlive it.
class TextCount {
 public:
  TextCount(const Model& model, std::span<const Message> messages, const AskOptions& options,
            const std::function<bool()>& keep_going)
      : model_(model), turns_(messages), options_(options), keep_going_(keep_going) {}

  // The vocabulary is there, or nothing less will do: how long a template writes JSON is not known
  // from its bytes.
  bool must_be_counted() const;
  int64_t bytes() const;  // of text, tools and calls of them
  const Result<int64_t>& tokens();

 private:
  Result<int64_t> count() const;

  const Model& model_;
  std::span<const Message> turns_;
  const AskOptions& options_;
  const std::function<bool()>& keep_going_;
  std::optional<Result<int64_t>> tokens_;
};

// Tokens [begin, end) of a prompt, as the decoder takes them. The vectors live in the result.
struct RunStorage {
  std::vector<TokenPosition> positions;
  std::vector<VisualSpan> visual;
  TokenRun run;
};
RunStorage run_of(const TokenPrompt& prompt, int64_t begin, int64_t end);

// The visual tokens of a prompt, by what was encoded in one piece.
std::vector<TokenRange> visual_ranges(const TokenPrompt& prompt);

}  // namespace fovea
