// SPDX-License-Identifier: Apache-2.0
// Texts as Python's str sees them: made of characters, whatever bytes they take. Valid UTF-8 in,
// valid UTF-8 out. Each byte knows whether people wrote it or the template did, and whatever is
// made of a text keeps that: there is no way from a Text to another that forgets it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "language/sourced_text.h"
#include "language/template/budget.h"

namespace fovea::jinja {

class Text {
 public:
  Text() = default;
  explicit Text(std::string_view bytes, char source = SourcedText::kTemplate) {
    append(bytes, source);
  }
  explicit Text(const SourcedText& text) : bytes_(text.bytes), sources_(text.sources) {}

  std::string_view view() const { return bytes_; }  // for looking, not for making texts
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool any_by_people() const { return people_wrote(sources_, 0, bytes_.size()); }
  SourcedText take() const { return {std::string(bytes_), std::string(sources_)}; }

  void append(std::string_view bytes, char source = SourcedText::kTemplate);
  void append(const Text& text) { append(text, 0, text.size()); }
  void append(const Text& text, size_t begin, size_t size);
  // What became of the byte of `text` at `at` and its neighbours: of the same source.
  void append_from(const Text& text, size_t at, std::string_view bytes) {
    append(bytes, text.sources_.empty() ? SourcedText::kTemplate : text.sources_[at]);
  }
  Text slice(size_t begin, size_t size) const;
  Text slice(std::string_view part) const {  // a part of view()
    return slice(static_cast<size_t>(part.data() - bytes_.data()), part.size());
  }

 private:
  String bytes_;
  String sources_;  // as SourcedText's
};

// Where `part` stands first from `from` on, or npos; in linear time.
size_t find(std::string_view text, std::string_view part, size_t from = 0);
size_t count_characters(std::string_view text);
// Where the character of this number starts; the end of the text past the last one.
size_t character_at(std::string_view text, size_t number);

bool is_space(uint32_t code_point);  // str.isspace

// Takes characters of a set (std::nullopt: spaces) from the ends.
std::string_view strip(std::string_view text, std::optional<std::string_view> set, bool left,
                       bool right);

Text upper(const Text& text);
Text lower(const Text& text);
Text capitalize(const Text& text);
Text title(const Text& text);

// Gives each part to `on_part`: by a separator, or by runs of spaces where there is none; at most
// `max` cuts, -1: all.
using OnPart = std::function<void(std::string_view)>;
void split(std::string_view text, std::optional<std::string_view> separator, int64_t max,
           const OnPart& on_part);
void split_lines(std::string_view text, const OnPart& on_line);

Text replace(const Text& text, std::string_view from, const Text& to, int64_t max);
Text repeat(const Text& text, int64_t times);

// text[start:stop:step] in characters.
Text slice_characters(const Text& text, std::optional<int64_t> start, std::optional<int64_t> stop,
                      int64_t step);
Text reversed(const Text& text);

// The indices that [start:stop:step] takes of `size` items, in order.
std::vector<size_t, Counted<size_t>> slice_indices(size_t size, std::optional<int64_t> start,
                                                   std::optional<int64_t> stop, int64_t step);

void append_repr(Text& out, const Text& text);              // repr(): 'it', "it's"
void append_json(Text& out, const Text& text, bool ascii);  // json.dumps: "it"
std::string number_text(double number);                     // repr(): 1.0, 1e+20

}  // namespace fovea::jinja
