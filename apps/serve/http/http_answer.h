// SPDX-License-Identifier: Apache-2.0
// An answer on its way from the thread that makes it to the connection that sends it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "serve/http/http.h"
#include "serve/http/http_loop.h"
#include "serve/http/http_slot.h"

namespace fovea::serve {

// Who is told, on the server's thread, that there is something new.
class HttpWaiter {
 public:
  virtual ~HttpWaiter() = default;
  virtual void wake() noexcept = 0;
};

class HttpAnswer : public std::enable_shared_from_this<HttpAnswer> {
 public:
  // What a connection has not sent yet.
  struct Part {
    enum class Kind { kNothing, kWhole, kBegin, kPieces, kEnd, kDropped, kBroken };
    Kind kind = Kind::kNothing;
    HttpReply reply;     // kWhole, kBegin
    std::string pieces;  // kPieces
  };

  HttpAnswer(std::shared_ptr<HttpLoop> loop, HttpWaiter& waiter);

  // From any thread; none of them throws. What comes in a wrong order is left out.
  void reply(HttpReply reply);
  void begin_stream(HttpReply reply);
  void send(const std::string& piece);
  void end_stream();
  void drop();  // nobody will make it
  void on_gone(std::function<void()> call);

  // On the server's thread:
  Part next();
  bool is_broken();
  // The connection is done with it, well or not. Calls on_gone's where the answer had not ended.
  void leave() noexcept;

 private:
  enum class Stage { kNone, kWhole, kBegun, kStream, kEnded, kDropped, kSent };

  struct Wake;

  void wake();  // with the mutex locked

  const std::shared_ptr<HttpLoop> loop_;
  HttpWaiter* waiter_;  // of the server's thread

  std::mutex mutex_;  // guards the rest
  Stage stage_ = Stage::kNone;
  HttpReply reply_;
  std::string pieces_;
  size_t being_sent_ = 0;  // bytes of the pieces that were taken last
  bool ended_ = false;     // by the one who makes it
  bool broken_ = false;    // it cannot be sent to its end
  bool left_ = false;
  bool gone_ = false;  // left before it had ended
  bool under_way_ = false;
  std::function<void()> on_gone_;
  HttpSlot slot_;  // for the one message to the server's thread that is under way
};

// The handler's side: the last reference to it that goes says that no more will come.
// `body` counts the request's until it is taken.
std::shared_ptr<HttpExchange> make_exchange(std::shared_ptr<HttpAnswer> answer, HttpRequest request,
                                            CountedBody body);

}  // namespace fovea::serve
