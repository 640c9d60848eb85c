// SPDX-License-Identifier: Apache-2.0
// Pictures that a request names by http or https -> their bytes.
//
// A URL of a stranger may name any place that this machine reaches. So: the host must be allowed by
// name, as libcurl reads it; its name is looked up once; every address found must be public; and
// the connection goes to one of those addresses and to no other. Redirects, proxies, cookies and
// compression are off.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "serve/api_error.h"
#include "serve/pictures/addresses.h"
#include "serve/pictures/pictures.h"

namespace fovea::serve {

// A host's addresses; none where its name is not known. It may take any time: it runs on a thread
// of its own, which is left alone once it takes too long.
using Resolver = std::function<std::vector<Address>(const std::string& host)>;

std::vector<Address> ask_system(const std::string& host);

// 400 where the URL is wrong or its host is not one of limits.hosts; 422 where it is not fetched.
// From any thread.
ApiResult<std::vector<uint8_t>> fetch_picture(const std::string& url, const PictureLimits& limits,
                                              const std::string& param,
                                              const Resolver& resolver = ask_system);

}  // namespace fovea::serve
