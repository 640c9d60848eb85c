// SPDX-License-Identifier: Apache-2.0
// URLs of http and https. libcurl's parser decides what is contacted, so it alone decides what is
// judged: two parsers that differ on a backslash or an @ let a stranger choose the host.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>
#include <vector>

#include "serve/api_error.h"

namespace fovea::serve {

struct FreeCurlUrl {
  void operator()(CURLU* parts) const { curl_url_cleanup(parts); }
};

struct WebUrl {
  std::unique_ptr<CURLU, FreeCurlUrl> parts;  // what libcurl is given
  std::string host;  // as in `parts`: lower case, no dot at its end, IPv6 in brackets
  int port = 0;
  bool secure = false;  // https
};

// 400 where it is not one, or names a user or a host beyond ASCII.
ApiResult<WebUrl> read_web_url(const std::string& url, const std::string& param);

// Whether its host is one of those: "name" (with the port that is usual for http or https) or
// "name:port"; addresses of IPv6 in brackets. Names are the same in capitals, or with a last dot.
bool is_allowed(const WebUrl& url, const std::vector<std::string>& hosts);

}  // namespace fovea::serve
