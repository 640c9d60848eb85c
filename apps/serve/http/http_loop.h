// SPDX-License-Identifier: Apache-2.0
// What the connections of one server share. All of it belongs to the thread of run(), but what says
// otherwise. Exchanges hold it, so it may outlive the server.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "serve/http/http.h"
#include "serve/http/http_asio.h"
#include "serve/http/http_slot.h"

namespace fovea::serve {

class HttpConnection;

// Ends the wait for it. What Asio lets it throw does not come up on Linux.
inline void cancel(boost::asio::steady_timer& timer) noexcept {
  try {
    timer.cancel();
  } catch (...) {
  }
}

struct HttpLoop;

// Bytes of a body, counted with those of all others while this lives.
class CountedBody {
 public:
  explicit CountedBody(std::shared_ptr<HttpLoop> loop) : loop_(std::move(loop)) {}
  ~CountedBody() { set(0); }
  CountedBody(CountedBody&& other) noexcept
      : loop_(std::move(other.loop_)), bytes_(std::exchange(other.bytes_, 0)) {}
  CountedBody(const CountedBody&) = delete;
  CountedBody& operator=(const CountedBody&) = delete;
  CountedBody& operator=(CountedBody&&) = delete;

  void set(size_t bytes) noexcept;
  bool is_too_much() const;

 private:
  std::shared_ptr<HttpLoop> loop_;
  size_t bytes_ = 0;
};

struct HttpLoop {
  HttpLoop(HttpOptions its_options, HttpHandler its_handler)
      : options(std::move(its_options)), handler(std::move(its_handler)) {}

  HttpSlot stop_slot;    // for the message that the server is to stop; outlives `io`
  HttpSlot accept_slot;  // for the wait for connections
  boost::asio::io_context io{1};
  const HttpOptions options;
  HttpHandler handler;
  std::array<char, size_t{64} << 10> scratch;  // what any connection reads goes through here
  std::unordered_set<HttpConnection*> all;
  int refused = 0;                    // of them, those that are being told that there are too many
  std::atomic<int> count{0};          // the others; read by any thread
  std::atomic<size_t> body_bytes{0};  // of requests that nobody works on yet; by any thread
  bool stopping = false;              // no further requests
  bool ended = false;                 // no further answers
  boost::asio::steady_timer end_time{io};

  // From any thread: calls it on the thread of run(). False where that has returned.
  template <class Call>
  bool call_later(Call call) {
    const std::lock_guard lock(over_mutex_);
    if (!over_) boost::asio::post(io, std::move(call));
    return !over_;
  }
  // run() has nothing left to do: no further calls come, and those that came last are made.
  void be_over() {
    {
      const std::lock_guard lock(over_mutex_);
      over_ = true;
    }
    io.restart();
    io.poll();
  }

 private:
  std::mutex over_mutex_;
  bool over_ = false;
};

inline void CountedBody::set(size_t bytes) noexcept {
  if (!loop_) return;                   // it was moved from
  loop_->body_bytes += bytes - bytes_;  // what is less wraps around, and so does the sum
  bytes_ = bytes;
}

inline bool CountedBody::is_too_much() const {
  return bytes_ > 0 && loop_->body_bytes > loop_->options.limits.all_bodies_bytes;
}

}  // namespace fovea::serve
