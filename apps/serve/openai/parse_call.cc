// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/parse_call.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "serve/openai/long_urls.h"

namespace fovea::serve {
namespace {

// Gives pictures the long URLs that texts stand for; false where not all of those are pictures'.
bool give_long_urls(const LongUrls& urls, const std::shared_ptr<std::string>& body,
                    std::vector<PictureName>& pictures) {
  size_t given = 0;
  for (PictureName& picture : pictures) {
    const auto url = urls.find(picture.url);
    if (!url) continue;
    picture.url.clear();
    picture.long_url = std::span(*body).subspan(url->first, url->size);
    picture.body = body;
    ++given;
  }
  return given == urls.places.size();
}

}  // namespace

ApiResult<ChatCall> parse_call(std::string body, Api api, const ChatLimits& limits, ReadCall read) {
  const auto shared = std::make_shared<std::string>(std::move(body));
  auto parsed = parse_around_urls(*shared);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& [json, urls] = std::get<ParsedBody>(parsed);
  if (!urls.places.empty()) {
    Json tried = json;
    ChatCall call{.api = api};
    const auto fault = read(Fields(tried, ""), limits, call);
    if (!fault && give_long_urls(urls, shared, call.pictures)) return call;
    // Some are no pictures', and an error may say what they are: once more, with all in their
    // place.
    put_back(urls, *shared, json);
  }
  ChatCall call{.api = api};
  if (auto fault = read(Fields(json, ""), limits, call)) return std::move(*fault);
  return call;
}

}  // namespace fovea::serve
