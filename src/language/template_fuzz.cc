// SPDX-License-Identifier: Apache-2.0
// The bytes are a chat template, given a short conversation that people wrote. What it makes must
// be valid UTF-8 whose every byte has a source, and it may take no more than its budget.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "language/template.h"
#include "language/template/value.h"
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
  static const fovea::Template::Variables kByPeople = [] {
    fovea::Template::Variables values;
    for (const auto& [name, value] : kVariables.items())
      values.emplace_back(name, fovea::jinja::Value::from_json(value, fovea::SourcedText::kPeople));
    return values;
  }();
  // A part of the budget, so that there are many runs a second.
  int polls = 0;
  const auto keep_going = [&polls] { return ++polls < 20; };
  fovea::RenderCost cost;
  const auto text = parsed->render_sourced(kByPeople, {.keep_going = keep_going, .cost = &cost});
  const auto check = [](bool good) {
    if (!good) std::abort();
  };
  check(cost.steps <= cost.max_steps && cost.bytes <= cost.max_bytes);
  if (!text) return 0;
  check(fovea::valid_utf8_prefix(text->bytes) == text->bytes.size());
  check(text->sources.empty() || text->sources.size() == text->bytes.size());
  // Who wrote a text makes no difference to what becomes of it; the time does.
  if (std::string_view(reinterpret_cast<const char*>(data), size).find("strftime") !=
      std::string_view::npos)
    return 0;
  const auto plain = parsed->render(kVariables);
  check(plain && *plain == text->bytes);
  return 0;
}
