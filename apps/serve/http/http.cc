// SPDX-License-Identifier: Apache-2.0
#include "serve/http/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "serve/http/http_asio.h"
#include "serve/http/http_connection.h"
#include "serve/http/http_loop.h"
#include "serve/http/http_task.h"

namespace fovea::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

// Of connections that are told that there are too many; more than that are closed without a word.
constexpr int kMostRefused = 64;
// How long accepting rests where the system has no file descriptor or no memory for a connection.
constexpr milliseconds kRest{50};

std::string to_text(const tcp::endpoint& place) {
  const std::string address = place.address().to_string();
  const bool is_v6 = place.address().is_v6();
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", address, is_v6 ? "]" : "", place.port());
}

class AsioServer final : public HttpServer {
 public:
  AsioServer(HttpOptions options, HttpHandler handler)
      : loop_(std::make_shared<HttpLoop>(std::move(options), std::move(handler))),
        acceptor_(loop_->io),
        rest_(loop_->io) {}
  ~AsioServer() override { loop_->handler = nullptr; }  // exchanges may keep the loop
  AsioServer(const AsioServer&) = delete;
  AsioServer& operator=(const AsioServer&) = delete;

  error_code bind(const tcp::endpoint& place) {
    error_code error;
    acceptor_.open(place.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(place, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (!error) place_ = acceptor_.local_endpoint(error);
    return error;
  }

  uint16_t port() const override { return place_.port(); }
  std::string address() const override { return to_text(place_); }
  int connections() const override { return loop_->count.load(std::memory_order_relaxed); }

  void run() override {
    retry([this] {
      if (!is_to_stop()) accept();
    });
    retry([this] { loop_->io.run(); });
    retry([this] { loop_->be_over(); });
  }

  // Takes no memory: a server that has none left must end too.
  void stop(milliseconds limit) override {
    const std::lock_guard lock(stop_mutex_);
    ++stops_;
    stop_limit_ = limit;
    if (stops_ == 1) loop_->call_later(Stop{this});
  }

 private:
  struct Stop {
    AsioServer* server;

    using allocator_type = HttpSlotAllocator<void>;
    allocator_type get_allocator() const { return allocator_type(&server->loop_->stop_slot); }
    void operator()() const {
      std::unique_lock lock(server->stop_mutex_);
      const int stops = std::exchange(server->stops_, 0);
      const milliseconds limit = server->stop_limit_;
      lock.unlock();
      for (int i = 0; i < stops; ++i) server->begin_end(limit);
    }
  };

  bool is_to_stop() {
    const std::lock_guard lock(stop_mutex_);
    return stops_ > 0;
  }

  // Only memory that runs out is thrown here. It comes back, or the server is told to stop.
  template <class Work>
  static void retry(const Work& work) {
    for (;;) {
      try {
        return work();
      } catch (...) {
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
  }

  HttpRoot accept() {
    while (acceptor_.is_open()) {
      try {
        co_await HttpSlotWait{loop_->accept_slot, [this](auto handler) {
                                acceptor_.async_wait(asio::socket_base::wait_read, handler);
                              }};
        if (accept_all()) continue;
        rest_.expires_after(kRest);
        co_await HttpWait{[this](auto handler) { rest_.async_wait(handler); }};
      } catch (...) {
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
  }

  // All that wait, in turns with other work. False where the system has no room for one.
  bool accept_all() {
    for (int i = 0; i < 64 && acceptor_.is_open(); ++i) {
      tcp::socket socket(loop_->io);
      error_code error;
      acceptor_.accept(socket, error);
      if (error == asio::error::would_block || error == asio::error::try_again) return true;
      const int code = error.value();
      if (code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM) return false;
      if (!error) start(std::move(socket));
    }
    return true;
  }

  void start(tcp::socket socket) {
    const bool is_refused = connections() >= loop_->options.limits.connections;
    if (is_refused && loop_->refused >= kMostRefused) return;
    auto connection = std::make_shared<HttpConnection>(loop_, std::move(socket), is_refused);
    HttpConnection::serve(std::move(connection));
  }

  void begin_end(milliseconds limit) {
    const bool is_first = !loop_->stopping;
    loop_->stopping = true;
    error_code ignored;
    acceptor_.close(ignored);
    cancel(rest_);
    if (!is_first || limit <= milliseconds::zero()) return end_all();
    wake_all();
    if (loop_->all.empty()) return;
    try {
      loop_->end_time.expires_after(std::min<milliseconds>(limit, std::chrono::hours(24 * 365)));
      loop_->end_time.async_wait([this](error_code error) {
        if (!error) end_all();
      });
    } catch (const std::bad_alloc&) {
      end_all();
    }
  }

  void end_all() {
    loop_->ended = true;
    cancel(loop_->end_time);
    wake_all();
  }

  void wake_all() {
    for (HttpConnection* connection : loop_->all) connection->wake();
  }

  const std::shared_ptr<HttpLoop> loop_;
  tcp::acceptor acceptor_;
  asio::steady_timer rest_;
  tcp::endpoint place_;
  std::mutex stop_mutex_;  // guards the rest
  int stops_ = 0;          // that the server's thread has not taken yet
  milliseconds stop_limit_{0};
};

const char* advice(const error_code& error) {
  if (error == asio::error::address_in_use) return "; try another port";
  if (error == asio::error::access_denied) return "; try a port above 1023";
  if (error.value() == EADDRNOTAVAIL) return "; try an address of this machine";
  return "";
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpOptions options, HttpHandler handler) {
  error_code error;
  const std::string host = options.host;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error)
    return bad_input(fmt::format(
        "cannot listen on \"{}\": not an address; try one such as 127.0.0.1, 0.0.0.0 or ::", host));
  const tcp::endpoint place(address, options.port);
  try {
    auto server = std::make_unique<AsioServer>(std::move(options), std::move(handler));
    error = server->bind(place);
    if (!error) return std::unique_ptr<HttpServer>(std::move(server));
  } catch (const boost::system::system_error& thrown) {  // no file descriptor for the loop itself
    error = thrown.code();
  }
  return failed(
      fmt::format("cannot listen on {}: {}{}", to_text(place), error.message(), advice(error)));
}

}  // namespace fovea::serve
