// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/web_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "serve/pictures/addresses.h"
#include "serve/pictures/ascii.h"
#include "serve/pictures/pictures.h"

namespace fovea::serve {
namespace {

struct FreeCurlText {
  void operator()(char* text) const { curl_free(text); }
};

std::string part_of(const WebUrl& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.parts.get(), part, &text, flags) != CURLUE_OK) return "";
  const std::unique_ptr<char, FreeCurlText> owned(text);
  return text;
}

// One way to write a host.
std::string plain_host(std::string_view host) {
  std::string plain = lower_case(host);
  if (plain.ends_with('.')) plain.pop_back();
  const bool bracketed = plain.starts_with('[') && plain.ends_with(']');
  const auto address = parse_address(bracketed ? plain.substr(1, plain.size() - 2) : plain);
  if (address && address->family == AF_INET6) return "[" + text_of(*address) + "]";
  return plain;
}

// What is wrong with a URL that libcurl does not read; empty where nothing is.
std::string wrong_syntax(CURLUcode code) {
  if (code == CURLUE_OUT_OF_MEMORY) throw std::bad_alloc();
  if (code == CURLUE_USER_NOT_ALLOWED)
    return "the URL holds a user name; leave out what is before the @";
  if (code == CURLUE_OK) return "";
  return fmt::format("the URL cannot be read: {}", curl_url_strerror(code));
}

// What is wrong with the host; empty where nothing is. From here on it is written in one way: what
// is judged is what is sent.
std::string set_host(WebUrl& url) {
  if (!part_of(url, CURLUPART_ZONEID).empty()) return "the URL's host names a network interface";
  url.host = plain_host(part_of(url, CURLUPART_HOST));
  // Letters beyond ASCII become others on the way to a name, digits and dots too.
  const bool is_ascii =
      std::all_of(url.host.begin(), url.host.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (url.host.empty() || !is_ascii) return "the URL's host must be written in ASCII (xn--...)";
  return wrong_syntax(curl_url_set(url.parts.get(), CURLUPART_HOST, url.host.c_str(), 0));
}

std::string set_port(WebUrl& url) {
  const std::string port = part_of(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  for (const char c : port) url.port = std::min(url.port * 10 + (c - '0'), 65536);
  return url.port >= 1 && url.port <= 65535 ? "" : "the URL's port is none";
}

std::string wrong_with(const std::string& text, WebUrl& url) {
  if (text.find('\0') != std::string::npos) return "the URL holds a zero byte";
  std::string wrong =
      wrong_syntax(curl_url_set(url.parts.get(), CURLUPART_URL, text.c_str(), CURLU_DISALLOW_USER));
  if (!wrong.empty()) return wrong;
  const std::string scheme = part_of(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return "the URL is not one of http or https";
  url.secure = scheme == "https";
  wrong = set_host(url);
  return wrong.empty() ? set_port(url) : wrong;
}

}  // namespace

ApiResult<WebUrl> read_web_url(const std::string& url, const std::string& param) {
  WebUrl read{.parts = std::unique_ptr<CURLU, FreeCurlUrl>(curl_url())};
  if (!read.parts) throw std::bad_alloc();
  const std::string wrong = wrong_with(url, read);
  if (!wrong.empty()) return wrong_param(param, wrong, kUrlCode);
  return read;
}

bool is_allowed(const WebUrl& url, const std::vector<std::string>& hosts) {
  const bool is_usual = url.port == (url.secure ? 443 : 80);
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& entry) {
    if (is_usual && plain_host(entry) == url.host) return true;
    const size_t colon = entry.rfind(':');
    if (colon == std::string::npos) return false;
    return entry.substr(colon + 1) == std::to_string(url.port) &&
           plain_host(std::string_view(entry).substr(0, colon)) == url.host;
  });
}

}  // namespace fovea::serve
