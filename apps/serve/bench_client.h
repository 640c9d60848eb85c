// SPDX-License-Identifier: Apache-2.0
// What serve_bench.cc asks, and its client of the server.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::serve {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Asked {
  std::vector<uint8_t> file;  // PNG
  std::string question;
  int answer_tokens = 0;  // exactly; 0: up to its end
  std::string body;       // of the same for the server, streamed
};

struct Heard {
  std::string text;     // as JSON writes it
  double first_ms = 0;  // to the first piece of text
  int64_t tokens = 0;
};

// A connection that is kept.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    open_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_open() const { return open_; }

  Heard ask(const Asked& asked) {
    const auto start = Clock::now();
    Heard heard;
    const std::string head = fmt::format(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n",
        asked.body.size());
    if (!send_all(head) || !send_all(asked.body)) return heard;
    std::string all;
    size_t read_to = 0;
    char bytes[16384];
    while (all.find("data: [DONE]") == std::string::npos ||
           all.find("\r\n0\r\n\r\n") == std::string::npos) {
      const ssize_t count = recv(fd_, bytes, sizeof bytes, 0);
      if (count <= 0) return heard;
      all.append(bytes, static_cast<size_t>(count));
      take_text(all, read_to, heard);
      if (heard.first_ms == 0 && !heard.text.empty()) heard.first_ms = ms_since(start);
    }
    constexpr std::string_view kTokens = "\"completion_tokens\":";
    if (const size_t at = all.rfind(kTokens); at != std::string::npos)
      heard.tokens = std::strtoll(all.c_str() + at + kTokens.size(), nullptr, 10);
    return heard;
  }

 private:
  bool send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  static void take_text(const std::string& all, size_t& read_to, Heard& heard) {
    constexpr std::string_view kKey = "\"delta\":{\"content\":\"";
    for (;;) {
      const size_t at = all.find(kKey, read_to);
      if (at == std::string::npos) return;
      size_t end = at + kKey.size();
      while (end < all.size() && all[end] != '"') end += all[end] == '\\' ? 2 : 1;
      if (end >= all.size()) return;
      heard.text += all.substr(at + kKey.size(), end - at - kKey.size());
      read_to = end;
    }
  }

  int fd_;
  bool open_ = false;
};

}  // namespace fovea::serve
