// SPDX-License-Identifier: Apache-2.0
// A text that knows which of its bytes people wrote, and which the model's template did.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

namespace fovea {

struct SourcedText {
  static constexpr char kTemplate = 0;
  static constexpr char kPeople = 1;

  std::string bytes;
  std::string sources;  // kTemplate or kPeople for each byte; empty: all of it is the template's

  void append(std::string_view text, char source) {
    if (source != kTemplate || !sources.empty()) {
      sources.resize(bytes.size(), kTemplate);
      sources.append(text.size(), source);
    }
    bytes.append(text);
  }
};

// Whether people wrote any of the bytes [begin, end) of a text with these sources.
inline bool people_wrote(std::string_view sources, size_t begin, size_t end) {
  return !sources.empty() &&
         std::memchr(sources.data() + begin, SourcedText::kPeople, end - begin) != nullptr;
}

}  // namespace fovea
