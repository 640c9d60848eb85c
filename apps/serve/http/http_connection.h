// SPDX-License-Identifier: Apache-2.0
// One connection: a coroutine that reads requests and sends answers, one after the other.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/http_answer.h"
#include "serve/http/http_asio.h"
#include "serve/http/http_loop.h"
#include "serve/http/http_parser.h"
#include "serve/http/http_task.h"

namespace fovea::serve {

// The coroutine stops in one place alone, pause(): whatever happens, bytes that come or can be
// sent, an answer that goes on, a stop, a time limit, ends the pause, and the coroutine looks at
// all of it. So there is nothing to cancel and no order of events to be wrong about. Reading and
// writing never block and go through memory of the loop: while it waits a connection owns next to
// none.
class HttpConnection final : public HttpWaiter,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::shared_ptr<HttpLoop> loop, boost::asio::ip::tcp::socket socket,
                 bool is_refused);
  ~HttpConnection() override;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  static HttpRoot serve(std::shared_ptr<HttpConnection> self);
  void wake() noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  using Buffers = std::array<boost::asio::const_buffer, 3>;
  enum class Got { kBytes, kNothing, kEnd, kLate, kStop };
  struct Sending;  // how an answer is sent

  auto pause(Clock::time_point until);
  void watch_input();
  void watch_output();

  Got read_now();                     // kBytes, kNothing or kEnd
  Got read_body(HttpParser& parser);  // likewise, to where the body is
  HttpTask<Got> read_more(Clock::time_point until);
  HttpTask<bool> wait_for_request();
  HttpTask<bool> read_request(HttpParser& parser, CountedBody& body);
  HttpTask<bool> serve_request();

  // `stream`, where the bytes are a part of one: it ends the writing where the client goes.
  HttpTask<bool> write(Buffers parts, HttpAnswer* stream);
  HttpTask<bool> write_whole(const HttpReply& reply, const Sending& sending);
  HttpTask<bool> write_pieces(std::string_view pieces, const Sending& sending, HttpAnswer& answer);
  HttpTask<bool> send_answer(HttpAnswer& answer, Sending& sending);
  HttpTask<bool> wait_for_part(HttpAnswer& answer, Sending& sending);
  HttpTask<bool> refuse(int status, std::string_view message, bool wants_no_body);
  HttpTask<bool> linger();

  bool client_has_gone();

  const std::shared_ptr<HttpLoop> loop_;
  const HttpLimits& limits_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;  // its waits are the pauses
  const bool is_refused_;
  bool watches_input_ = false;
  bool watches_output_ = false;
  int requests_ = 0;
  std::string input_;  // bytes that were read and belong to no request yet
  std::string client_;
};

}  // namespace fovea::serve
