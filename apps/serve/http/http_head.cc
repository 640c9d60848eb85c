// SPDX-License-Identifier: Apache-2.0
#include "serve/http/http_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "serve/http/http_parser.h"

namespace fovea::serve {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// A field whose text came from a request must not become two, or the body.
bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

bool is_of_http_itself(std::string_view name) {
  return same_name(name, "content-length") || same_name(name, "transfer-encoding") ||
         same_name(name, "connection") || same_name(name, "content-type");
}

}  // namespace

bool may_have_body(int status) { return status >= 200 && status != 204 && status != 304; }

std::string reply_head(const HttpReply& reply, Framing framing, bool keep_alive) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", reply.status, reason_phrase(reply.status));
  const auto add = [&](std::string_view name, std::string_view value) {
    if (is_one_line(name) && is_one_line(value))
      fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  };
  const bool has_body = may_have_body(reply.status);
  if (has_body && !reply.type.empty()) add("Content-Type", reply.type);
  bool says_cache = false;
  for (const auto& [name, value] : reply.fields) {
    if (is_of_http_itself(name)) continue;
    says_cache = says_cache || same_name(name, "cache-control");
    add(name, value);
  }
  if (framing != Framing::kLength && !says_cache) add("Cache-Control", "no-cache");
  if (framing == Framing::kChunked) add("Transfer-Encoding", "chunked");
  if (framing == Framing::kLength && has_body)
    add("Content-Length", fmt::format("{}", reply.body.size()));
  add("Connection", keep_alive ? "keep-alive" : "close");
  return head += "\r\n";
}

HttpReply own_reply(const HttpOptions& options, int status, std::string_view message) {
  HttpReply reply;
  reply.status = status;
  if (status == 415) reply.fields.emplace_back("Accept-Encoding", "identity");
  if (options.error_body) {
    reply.body = options.error_body(status, message);
  } else {
    reply.type = "text/plain";
    reply.body = fmt::format("{}\n", message);
  }
  return reply;
}

}  // namespace fovea::serve
