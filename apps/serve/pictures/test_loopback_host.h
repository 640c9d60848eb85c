// SPDX-License-Identifier: Apache-2.0
// What the tests of fetch.cc share. Hosts are threads that listen on loopback addresses; no other
// address is ever contacted.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "places.h"
#include "serve/pictures/fetch.h"

namespace fovea::serve::loopback {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<uint8_t>;

inline constexpr const char* kParam = "messages[0].content[1].image_url";
// What a wait that must end early stays under on a machine that does much else.
inline constexpr std::chrono::seconds kSoon{20};

inline std::string png() {
  std::ifstream file(source_dir() + "/tests/fixtures/images/rgb-8.png", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string answer(const std::string& body, const std::string& fields = "") {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + fields +
         "\r\n" + body;
}

// The side of a connection that answers.
class Talk {
 public:
  explicit Talk(int fd) : fd_(fd) {}

  // False once the client has gone.
  bool send(const std::string& text) const {
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t some = ::send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (some <= 0) return false;
      sent += static_cast<size_t>(some);
    }
    return true;
  }
  // False where the client has gone meanwhile.
  bool wait(int ms) const {
    pollfd gone{fd_, POLLIN, 0};
    return poll(&gone, 1, ms) == 0;
  }

 private:
  int fd_;
};

using Act = std::function<void(const Talk& talk)>;

class Host {
 public:
  explicit Host(Act act, const char* address = "127.0.0.1", uint16_t port = 0)
      : act_(std::move(act)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, address, &at.sin_addr);
    socklen_t bytes = sizeof at;
    auto* plain = reinterpret_cast<sockaddr*>(&at);
    listens_ = bind(listener_, plain, bytes) == 0 && listen(listener_, 64) == 0 &&
               getsockname(listener_, plain, &bytes) == 0;
    port_ = ntohs(at.sin_port);
    if (listens_) thread_ = std::thread([this] { take_connections(); });
  }
  explicit Host(const std::string& text) : Host([text](const Talk& talk) { talk.send(text); }) {}
  ~Host() {
    shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& talk : talks_) talk.join();
    for (const int fd : open_) close(fd);
    close(listener_);
  }

  bool listens() const { return listens_; }
  int port() const { return port_; }
  std::string name(const std::string& host = "127.0.0.1") const {
    return host + ":" + std::to_string(port_);
  }
  std::string url(const std::string& host = "127.0.0.1") const {
    return "http://" + name(host) + "/a.png";
  }
  int connections() const { return connections_; }
  std::string request() {
    const std::lock_guard lock(mutex_);
    return request_;
  }

 private:
  void take_connections() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      ++connections_;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      talks_.emplace_back([this, fd] { converse(fd); });
    }
  }
  void converse(int fd) {
    std::string request;
    char part[4096];
    // A secure connection begins with \x16, and does not end so.
    while (request.find("\r\n\r\n") == std::string::npos && !request.starts_with('\x16')) {
      const ssize_t got = recv(fd, part, sizeof part, 0);
      if (got <= 0) break;
      request.append(part, static_cast<size_t>(got));
    }
    {
      const std::lock_guard lock(mutex_);
      request_ = request;
    }
    act_(Talk(fd));
    shutdown(fd, SHUT_RDWR);
  }

  Act act_;
  int listener_;
  bool listens_ = false;
  int port_ = 0;
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::string request_;
  std::vector<int> open_;
  std::thread thread_;
  std::vector<std::thread> talks_;
};

inline Resolver always(std::vector<std::string> texts) {
  return [texts = std::move(texts)](const std::string&) {
    std::vector<Address> addresses;
    for (const std::string& text : texts) addresses.push_back(*parse_address(text));
    return addresses;
  };
}

inline Resolver never() {
  return [](const std::string& host) {
    ADD_FAILURE() << "looked up " << host;
    return std::vector<Address>();
  };
}

inline PictureLimits limits_for(const std::string& host) {
  return {.hosts = {host}, .bytes = 1 << 20, .fetch_ms = 60'000, .allow_private = true};
}

// The error of a fetch that must fail, which tells no address.
inline ApiError refused(const std::string& url, const PictureLimits& limits,
                        const Resolver& resolver = ask_system) {
  const auto result = fetch_picture(url, limits, kParam, resolver);
  const auto* error = std::get_if<ApiError>(&result);
  EXPECT_NE(error, nullptr) << url;
  if (error == nullptr) return {};
  EXPECT_EQ(error->param, kParam);
  for (const char* address : {"127.0", "::1", "localhost", "example", "0.0.0.0", "169.254"})
    EXPECT_EQ(error->message.find(address), std::string::npos) << error->message;
  return *error;
}

inline void expect_unfetched(const ApiError& error, const std::string& words) {
  EXPECT_EQ(error.status, 422) << error.message;
  EXPECT_EQ(error.code, "picture_not_fetched");
  EXPECT_TRUE(error.message.starts_with("the picture could not be fetched: ")) << error.message;
  EXPECT_NE(error.message.find(words), std::string::npos) << error.message << " lacks " << words;
}

}  // namespace fovea::serve::loopback
