// SPDX-License-Identifier: Apache-2.0
// The bytes are a chat template, given a short conversation that people wrote. What it makes must
// be valid UTF-8 whose every byte has a source, and the time and the memory that it really took
// must be about what was charged for.
#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/thread_time.h"
#include "language/template.h"
#include "language/template/value.h"
#include "language/tokenizer/unicode.h"

namespace {

void check(bool good) {
  if (!good) std::abort();
}

// What this thread holds of what it took since it began to measure.
struct Held {
  bool is_measured = false;
  int64_t bytes = 0;
  int64_t most = 0;
};
thread_local Held held;

void on_malloc(const volatile void* /*pointer*/, size_t bytes) {
  if (!held.is_measured) return;
  held.bytes += static_cast<int64_t>(bytes);
  held.most = std::max(held.most, held.bytes);
}

void on_free(const volatile void* pointer) {
  if (!held.is_measured || pointer == nullptr) return;
  held.bytes -= static_cast<int64_t>(
      __sanitizer_get_allocated_size(const_cast<const void*>(pointer)));  // NOLINT: not changed
}

// Sanitizers make a step of 25 ns several times longer, and what a step stands for differs; work
// that nobody charges takes seconds all the same.
void check_work(double took_s, const fovea::RenderCost& cost) {
  constexpr double kSecondsOfStep = 25e-9;
  constexpr double kTimesOver = 40;
  check(took_s <= 1 + kTimesOver * kSecondsOfStep * static_cast<double>(cost.steps));
}

// Beside the values that are charged there are scopes, texts on their way, and the output.
void check_memory(int64_t most_bytes, const fovea::RenderCost& cost) {
  constexpr int64_t kTimesOver = 4;
  constexpr int64_t kBeside = int64_t{2} << 20;
  check(most_bytes <= kBeside + kTimesOver * static_cast<int64_t>(cost.bytes));
}

}  // namespace

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
  static const bool kHooked = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0;
  check(kHooked);
  fovea::RenderCost cost;
  held = {.is_measured = true};
  const double began_s = fovea::thread_seconds();
  const auto text = parsed->render_sourced(kByPeople, {.keep_going = keep_going, .cost = &cost});
  const double took_s = fovea::thread_seconds() - began_s;
  held.is_measured = false;
  check(cost.steps <= cost.max_steps && cost.bytes <= cost.max_bytes);
  check_work(took_s, cost);
  check_memory(held.most, cost);
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
