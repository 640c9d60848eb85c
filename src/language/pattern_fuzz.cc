// SPDX-License-Identifier: Apache-2.0
// The first line is a tokenizer's pattern, the rest a text. The matches must go forward through the
// text, and end: with the text, or with an error once they took too long, which is soon after what
// the text is worth.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/thread_time.h"
#include "language/tokenizer/pattern.h"
#include "language/tokenizer/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(all.find('\n'), all.size());
  const auto pattern = fovea::Pattern::compile(std::string(all.substr(0, line)));
  if (!pattern) return 0;
  const std::string text = fovea::replace_invalid_utf8(all.substr(std::min(line + 1, all.size())));
  constexpr double kTimesOver = 3;  // the last tries end after it
  const double end_s =
      fovea::thread_seconds() + kTimesOver * fovea::PatternWork::most_seconds(text.size());
  fovea::PatternWork work(text.size(), nullptr);
  fovea::Pattern::Search search(*pattern);
  search.start(text, work);
  size_t done = 0;
  for (auto match = search.next(); match && match->found; match = search.next()) {
    if (match->begin < done || match->end <= match->begin || match->end > text.size()) std::abort();
    done = match->end;
  }
  if (fovea::thread_seconds() > end_s) std::abort();
  return 0;
}
