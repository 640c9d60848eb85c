// SPDX-License-Identifier: Apache-2.0
// The bytes are a chat template, given a short conversation; what it makes must be valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "language/template.h"
#include "language/tokenizer/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto kVariables = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "Be brief."},
                 {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "\u00e9 \ud83d\ude00?"}]},
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes", "tool_calls": []}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": 1.5, "y": null}}}],
    "a": [3, 1, 2], "add_generation_prompt": true, "eos_token": "</s>"})");
  const auto parsed = fovea::Template::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  const auto text = parsed->render(kVariables);
  if (text && fovea::valid_utf8_prefix(*text) != text->size()) std::abort();
  return 0;
}
