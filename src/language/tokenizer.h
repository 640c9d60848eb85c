// SPDX-License-Identifier: Apache-2.0
// Text <-> token ids: the byte-level BPE of a Hugging Face tokenizer.json, equal to the
// `tokenizers` package (tools/compare_tokenizer.py).
//
//   auto tokenizer = Tokenizer::load("Qwen3-VL-2B-Instruct");
//   auto ids = tokenizer->encode("<|im_start|>user\nWhat is this?");
//   std::string text = tokenizer->decode(*ids);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/result.h"
#include "language/sourced_text.h"

namespace fovea {

struct TokenSearch;

// Copies share one vocabulary; every method may be called from several threads at once.
class Tokenizer {
 public:
  // `path` is a checkpoint folder, or the tokenizer.json itself.
  static Result<Tokenizer> load(const std::string& path);

  // `name` stands for the file in errors. `fast` off: patterns go to the expression engine even
  // where a scanner of our own knows them.
  static Result<Tokenizer> parse(std::string_view json, const std::string& name, bool fast = true);

  // Added tokens (<|im_start|>, ...) in the text become their ids; `with_special` off, the special
  // ones among them are text like any other. Bytes that are not UTF-8 count as U+FFFD. Fails only
  // where the tokenizer's own pattern takes too long on this text.
  Result<std::vector<int>> encode(std::string_view text, bool with_special = true) const;

  // The same of a text with its sources, valid UTF-8: a special token is one where the template
  // wrote all of it; where people wrote of it, it is text like any other. `keep_going` is asked
  // while a long text is worked on; false ends that with an error.
  Result<std::vector<int>> encode(const SourcedText& text,
                                  const std::function<bool()>& keep_going = nullptr) const;

  // Ids that stand for nothing are left out, and special tokens too if told so. Bytes that form no
  // character become U+FFFD.
  std::string decode(std::span<const int> ids, bool skip_special = false) const;

  std::optional<int> find(std::string_view token) const;  // "<|image_pad|>" -> 151655
  std::string_view bytes(int id) const;                   // empty where there is no such token
  bool is_special(int id) const;
  int id_end() const;  // one past the highest id

 private:
  struct Parts;
  Result<std::vector<int>> encode(const TokenSearch& search) const;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

// Decodes ids one after the other. Text comes as soon as it is certain: bytes of a character whose
// end is still to come are held back. All pieces together are what decode() gives for all ids.
class TextStream {
 public:
  explicit TextStream(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  std::string add(int id);
  std::string finish();  // what was held back, as U+FFFD

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string held_;  // at most three bytes
};

}  // namespace fovea
