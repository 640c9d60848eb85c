// SPDX-License-Identifier: Apache-2.0
// A body -> JSON, after a look at it that is far cheaper than the parser: it skips what is inside
// strings. Too many values end there, before they take memory; pictures, strings of megabytes, go
// around the parser, and are looked at once.
#include <fmt/format.h>

#include <charconv>
#include <random>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "serve/openai/as_written.h"
#include "serve/openai/long_urls.h"
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
  LongUrls urls;
  std::optional<std::string> too_many_at;  // a key of the first level
  std::string rest;                        // the body with stand-ins for URLs; empty: none
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

// The size of the URL that the string at a quote is; 0 where it is none, or not so long, or a key,
// or the parser would not give it back as it is.
size_t size_of_long_url(std::string_view text, size_t quote) {
  if (!text.substr(quote + 1).starts_with("data:")) return 0;
  const size_t size = as_written(text.substr(quote + 1));
  const size_t end = quote + 1 + size;
  if (size < kLongUrl || end == text.size() || text[end] != '"') return 0;
  const size_t next = text.find_first_not_of(" \t\r\n", end + 1);
  return next == std::string_view::npos || text[next] == ':' ? 0 : size;
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
      LongUrls& urls = found.urls;
      const size_t size = size_of_long_url(text, at);
      const size_t end = size > 0 ? at + size + 2 : end_of_string(text, at);
      if (depth == 1) last = text.substr(at + 1, end - at - 1);
      if (size > 0) {
        if (urls.stand_in.empty()) urls.stand_in = make_stand_in();
        found.rest.append(text, copied, at + 1 - copied).append(urls.stand_in);
        found.rest += std::to_string(urls.places.size());
        urls.places.push_back({at + 1, size});
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
  if (copied > 0) found.rest.append(text, copied);
  return found;
}

// The byte that is none of JSON, where there is one. Long URLs have none.
size_t find_nul(std::string_view body, const Scan& found) {
  const bool is_seen = !found.rest.empty() && !found.too_many_at;
  if (is_seen && found.rest.find('\0') == std::string::npos) return std::string_view::npos;
  return body.find('\0');
}

Result<Json> parse(std::string_view body, Scan& found) {
  if (found.urls.places.empty()) return parse_ordered_json(body);
  auto json = parse_ordered_json(found.rest);
  if (json) return json;
  found.urls.places.clear();
  return parse_ordered_json(body);  // its error names a place of the body
}

}  // namespace

std::optional<LongUrls::Place> LongUrls::find(std::string_view text) const {
  if (places.empty() || !text.starts_with(stand_in)) return std::nullopt;
  size_t number = 0;
  std::from_chars(text.data() + stand_in.size(), text.data() + text.size(), number);
  return places[number];
}

void put_back(const LongUrls& urls, std::string_view body, Json& json) {
  for (Json& inner : json) {
    if (inner.is_structured()) put_back(urls, body, inner);
    if (!inner.is_string()) continue;
    auto& text = inner.get_ref<std::string&>();
    if (const auto url = urls.find(text)) text = body.substr(url->first, url->size);
  }
}

ApiResult<ParsedBody> parse_around_urls(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return wrong_param("", "the body is empty; give a JSON object");
  Scan found = scan(body, kMostJsonValues);
  // The parser takes it for the end of the text, and would pass over what follows.
  if (const size_t nul = find_nul(body, found); nul != std::string_view::npos)
    return wrong_param("", fmt::format("the body holds a NUL, at byte {}; give JSON", nul + 1));
  if (const auto& key = found.too_many_at)
    return wrong_param(*key, fmt::format("the body holds more than {} values{}; give fewer",
                                         with_commas(kMostJsonValues),
                                         key->empty() ? "" : ", at " + in_quotes(*key)));
  auto json = parse(body, found);
  if (!json) return wrong_param("", "cannot read the body: " + json.error().message);
  if (!json->is_object())
    return wrong_param("", fmt::format("the body is {}; give a JSON object", kind_of(*json)));
  return ParsedBody{*std::move(json), std::move(found.urls)};
}

ApiResult<Json> parse_body(std::string_view body) {
  auto parsed = parse_around_urls(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& [json, urls] = std::get<ParsedBody>(parsed);
  if (!urls.places.empty()) put_back(urls, body, json);
  return std::move(json);
}

}  // namespace fovea::serve
