// SPDX-License-Identifier: Apache-2.0
// The bytes are a text for a small tokenizer, and a tokenizer.json, whose own text it then encodes
// (which holds all of its tokens). What encodes must decode to valid UTF-8, the same in one piece
// and in a stream.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "language/tokenizer.h"
#include "language/tokenizer/unicode.h"

namespace {

constexpr std::string_view kSmall = R"json({
  "normalizer": {"type": "NFC"}, "decoder": {"type": "ByteLevel"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "use_regex": false, "add_prefix_space": false}]},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4, "\u00c3": 5, "\u00a9": 6,
    "\u00c3\u00a9": 7, "\u010a": 8, "\u010a\u010a": 9, "\u00cc": 10, "\u0123": 11},
    "merges": ["a b", "\u0120 a", "\u00c3 \u00a9", "\u010a \u010a"]},
  "added_tokens": [{"id": 12, "content": "<x>", "special": true, "lstrip": true, "rstrip": true},
    {"id": 13, "content": "<xy>", "normalized": true, "single_word": true}]})json";

void check(bool good) {
  if (!good) std::abort();
}

void use(const fovea::Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text);
  if (!ids) return;
  const std::string decoded = tokenizer.decode(*ids);
  check(fovea::valid_utf8_prefix(decoded) == decoded.size());
  fovea::TextStream stream(tokenizer, false);
  std::string streamed;
  for (const int id : *ids) streamed += stream.add(id);
  check(streamed + stream.finish() == decoded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fovea::Tokenizer kTokenizer = *fovea::Tokenizer::parse(kSmall, "small");
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  use(kTokenizer, bytes);
  if (const auto tokenizer = fovea::Tokenizer::parse(bytes, "fuzz")) use(*tokenizer, bytes);
  return 0;
}
