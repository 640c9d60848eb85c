// SPDX-License-Identifier: Apache-2.0
// A body -> JSON, after a look at it that is far cheaper than the parser: it skips what is inside
// strings. Too many values end there, before they take memory; pictures, strings of megabytes that
// the parser would read byte by byte (8 ms a MiB), go around it.
#include <fmt/format.h>

#include <charconv>
#include <random>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "serve/openai/as_written.h"
#include "serve/openai/read_json.h"

namespace fovea::serve {
namespace {

constexpr size_t kLongUrl = 4096;

// What stands for a URL, with its number behind it: begins like none, and goes on with letters that
// nobody can guess, so that no other text is taken for one.
std::string make_stand_in() {
  std::random_device random;
  return fmt::format("data:\x7f{:08x}{:08x}{:08x}/", random(), random(), random());
}

struct Scan {
  std::string stand_in;
  std::optional<std::string> too_many_at;  // a key of the first level
  std::vector<std::string_view> urls;      // long ones, of the body
  std::string rest;                        // the body with stand-ins for them; empty: none
};

// Where the string that begins at a quote ends, behind its closing quote; the text's end where it
// has none.
size_t end_of_string(std::string_view text, size_t quote) {
  for (size_t at = quote + 1; (at = text.find('"', at)) != std::string_view::npos; ++at) {
    size_t slashes = 0;
    while (text[at - 1 - slashes] == '\\') ++slashes;
    if (slashes % 2 == 0) return at + 1;
  }
  return text.size();
}

// Whether the string in [quote, end) is a value that the parser would give back as it is.
bool is_long_url(std::string_view text, size_t quote, size_t end) {
  if (end - quote < kLongUrl || end == text.size()) return false;
  const size_t next = text.find_first_not_of(" \t\r\n", end);
  if (next == std::string_view::npos || text[next] == ':') return false;  // a key
  const std::string_view inside = text.substr(quote + 1, end - quote - 2);
  return inside.starts_with("data:") && is_as_written(inside);
}

// Whatever is no JSON is left to the parser.
Scan scan(std::string_view text, size_t most_values) {
  Scan found;
  size_t values = 0;
  int depth = 0;
  std::string_view key;
  std::string_view last;  // string of the first level, with its closing quote
  size_t copied = 0;      // into `rest`
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      const size_t end = end_of_string(text, at);
      if (depth == 1) last = text.substr(at + 1, end - at - 1);
      if (is_long_url(text, at, end)) {
        if (found.stand_in.empty()) found.stand_in = make_stand_in();
        found.rest.append(text, copied, at + 1 - copied).append(found.stand_in);
        found.rest += std::to_string(found.urls.size());
        found.urls.push_back(text.substr(at + 1, end - at - 2));
        copied = end - 1;
      }
      at = end;
      continue;
    }
    if (c == ':' && depth == 1) key = last.substr(0, last.empty() ? 0 : last.size() - 1);
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if ((c == ',' || c == '[' || c == '{') && ++values > most_values) {
      found.too_many_at = std::string(key);
      return found;
    }
    ++at;
  }
  if (!found.urls.empty()) found.rest.append(text, copied);
  return found;
}

void put_back(const Scan& found, std::string& text) {
  if (!text.starts_with(found.stand_in)) return;
  size_t number = 0;
  std::from_chars(text.data() + found.stand_in.size(), text.data() + text.size(), number);
  text = found.urls[number];
}

void put_back(const Scan& found, Json& value) {
  for (Json& inner : value) {
    if (inner.is_structured()) put_back(found, inner);
    if (inner.is_string()) put_back(found, inner.get_ref<std::string&>());
  }
}

Result<Json> parse(std::string_view body, const Scan& found) {
  if (found.urls.empty()) return parse_ordered_json(body);
  auto json = parse_ordered_json(found.rest);
  if (!json) return parse_ordered_json(body);  // its error names a place of the body
  put_back(found, *json);
  return json;
}

}  // namespace

ApiResult<Json> parse_body(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return wrong_param("", "the body is empty; give a JSON object");
  // The parser takes it for the end of the text, and would pass over what follows.
  if (const size_t nul = body.find('\0'); nul != std::string_view::npos)
    return wrong_param("", fmt::format("the body holds a NUL, at byte {}; give JSON", nul + 1));
  const Scan found = scan(body, kMostJsonValues);
  if (const auto& key = found.too_many_at)
    return wrong_param(*key, fmt::format("the body holds more than {} values{}; give fewer",
                                         with_commas(kMostJsonValues),
                                         key->empty() ? "" : ", at " + in_quotes(*key)));
  auto json = parse(body, found);
  if (!json) return wrong_param("", "cannot read the body: " + json.error().message);
  if (!json->is_object())
    return wrong_param("", fmt::format("the body is {}; give a JSON object", kind_of(*json)));
  return std::move(*json);
}

}  // namespace fovea::serve
