// SPDX-License-Identifier: Apache-2.0
// Texts as Python's str sees them: made of characters, whatever bytes they take. Valid UTF-8 in,
// valid UTF-8 out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::jinja {

std::vector<std::string> characters(std::string_view text);
size_t count_characters(std::string_view text);

bool is_space(uint32_t code_point);  // str.isspace

// Takes characters of a set (std::nullopt: spaces) from the ends.
std::string_view strip(std::string_view text, std::optional<std::string_view> set, bool left,
                       bool right);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);

// By a separator, or by runs of spaces where there is none; at most `max` cuts, -1: all.
std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator,
                               int64_t max);
std::vector<std::string> split_lines(std::string_view text);

std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t max);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string repeat(std::string_view text, int64_t times);

// The indices that text[start:stop:step] takes of `size` items, in order.
std::vector<size_t> slice_indices(size_t size, std::optional<int64_t> start,
                                  std::optional<int64_t> stop, int64_t step);

std::string repr_quoted(std::string_view text);              // repr(): 'it', "it's"
std::string json_quoted(std::string_view text, bool ascii);  // json.dumps: "it"
std::string number_text(double number);                      // repr(): 1.0, 1e+20

}  // namespace fovea::jinja
