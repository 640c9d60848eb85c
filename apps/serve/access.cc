// SPDX-License-Identifier: Apache-2.0
#include "serve/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/read_file.h"

namespace fovea::serve {
namespace {

constexpr size_t kMostKeyBytes = 1024;

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// "name", "name:port" and "[address]:port" without the port; empty where it is none of them.
std::string_view without_port(std::string_view host) {
  const size_t bracket = host.find(']');
  if (host.starts_with('[') && bracket == std::string_view::npos) return {};
  const size_t colon = host.find(':', host.starts_with('[') ? bracket : 0);
  const std::string_view name = host.substr(0, colon);
  if (colon == std::string_view::npos) return name;
  const std::string_view port = host.substr(colon + 1);
  const bool digits =
      !port.empty() && port.size() <= 5 &&
      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? name : std::string_view();
}

}  // namespace

Result<std::vector<std::string>> read_keys(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  const auto text = read_file(path, kMostBytes);
  if (!text) return text.error();
  return keys_of(*text, path);
}

Result<std::vector<std::string>> keys_of(const std::string& text, const std::string& name) {
  std::vector<std::string> keys;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string key = text.substr(begin, end - begin);
    begin = end + 1;
    while (!key.empty() && (key.back() == '\r' || key.back() == ' ')) key.pop_back();
    if (key.empty()) continue;
    const bool printable =
        std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < '\x7f'; });
    if (!printable || key.size() > kMostKeyBytes)
      return bad_input(fmt::format("{}: a key is {} printable characters without spaces at most",
                                   name, kMostKeyBytes));
    keys.push_back(std::move(key));
  }
  if (keys.empty()) return bad_input(fmt::format("{} holds no key; write one a line", name));
  return keys;
}

int find_key(std::string_view authorization, const std::vector<std::string>& keys) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given;
  if (same_letters(authorization.substr(0, kBearer.size()), kBearer))
    given = authorization.substr(kBearer.size());
  int found = -1;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string& key = keys[i];
    size_t differs = key.size() ^ given.size();
    for (size_t k = 0; k < key.size(); ++k)
      differs |= static_cast<unsigned char>(key[k]) ^
                 static_cast<unsigned char>(k < given.size() ? given[k] : '\0');
    found = differs == 0 ? static_cast<int>(i) : found;
  }
  return found;
}

bool is_local_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view name = without_port(origin.substr(scheme.size()));
    return same_letters(name, "localhost") || name == "127.0.0.1" || name == "[::1]";
  }
  return false;
}

bool is_local_host(std::string_view host) {
  std::string name(without_port(host));
  if (same_letters(name, "localhost")) return true;
  in_addr four{};
  if (inet_pton(AF_INET, name.c_str(), &four) == 1) return true;
  if (name.size() < 2 || name.front() != '[') return false;
  in6_addr six{};
  return inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), &six) == 1;
}

}  // namespace fovea::serve
