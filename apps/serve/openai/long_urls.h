// SPDX-License-Identifier: Apache-2.0
// Data URLs of a body that the parser of JSON goes around: it would read them byte by byte (8 ms a
// MiB). Texts that no client can guess stand for them.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai/read_json.h"

namespace fovea::serve {

struct LongUrls {
  struct Place {  // in the body
    size_t first = 0;
    size_t size = 0;
  };

  std::string stand_in;  // before the number of the URL, in `places`
  std::vector<Place> places;

  // Where the URL is that the text stands for; nothing where it stands for none.
  std::optional<Place> find(std::string_view text) const;
};

struct ParsedBody {
  Json json;  // an object, with texts that stand for the URLs
  LongUrls urls;
};

// A body -> its object. Refuses before anything is built what is too much.
ApiResult<ParsedBody> parse_around_urls(std::string_view body);

// Copies of all URLs to where they belong.
void put_back(const LongUrls& urls, std::string_view body, Json& json);

}  // namespace fovea::serve
