// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 for the server: connections, limits, streams. Boost.Beast's headers stay in http.cc.
//
//   auto server = HttpServer::listen({.port = 0}, [](std::shared_ptr<HttpExchange> exchange) {
//     exchange->reply({.status = 200, .body = "{}"});
//   });
//   (*server)->run();  // until stop() has ended it
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/result.h"

namespace fovea::serve {

struct HttpLimits {
  size_t header_bytes = size_t{16} << 10;         // of the request's first line and fields together
  size_t body_bytes = size_t{64} << 20;           // chunked bodies too
  size_t all_bodies_bytes = size_t{1} << 30;      // of all requests that nobody works on yet
  std::chrono::milliseconds header_time{10'000};  // from a request's first byte to its fields' end
  std::chrono::milliseconds body_time{60'000};    // from there to its last byte
  std::chrono::milliseconds idle_time{120'000};   // of a connection between two requests
  std::chrono::milliseconds write_time{30'000};   // that a client takes nothing of what it is sent
  std::chrono::milliseconds ping_time{15'000};    // without a piece of a stream: a comment is sent
  size_t unsent_bytes = size_t{4} << 20;  // of one stream; more than this closes the connection
  int connections = 4096;                 // one more is answered 503 and closed
  int requests_per_connection = 1000;     // the answer to the last says Connection: close
};

struct HttpRequest {
  std::string method;  // "GET"; for HEAD too, whose answer is sent without its body
  std::string path;    // without the query, not decoded: "/v1/models"
  std::string query;   // behind the question mark
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
  std::string body;
  std::string client;  // its address, for the log

  // The value of a field; empty where there is none.
  std::string_view field(std::string_view lower_case_name) const;
};

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;  // besides those that HTTP itself needs
};

// One request and its answer. All methods may be called from any thread, after the connection has
// gone too: then they do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;
  // Its body, which is empty from then on: it may be large, and the answer may take long.
  virtual std::string take_body() = 0;
  // The whole answer. Once, and not after begin_stream().
  virtual void reply(HttpReply reply) = 0;
  // The head of an answer whose body comes in pieces (server-sent events); `reply.body` is unused.
  virtual void begin_stream(HttpReply reply) = 0;
  // A piece of the body, never waited for. Comments keep an idle stream alive by themselves.
  virtual void send(std::string piece) = 0;
  virtual void end_stream() = 0;
  // Called once, on the server's thread, where the client goes away before reply() or end_stream()
  // was called; its closing of its own side alone counts as going. Where it has gone already it is
  // called soon, and where run() has returned at once, on the caller's thread.
  virtual void on_gone(std::function<void()> call) = 0;
};

using HttpHandler = std::function<void(std::shared_ptr<HttpExchange> exchange)>;

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  uint16_t port = 8080;            // 0: a free one
  HttpLimits limits;
  // The body of an answer that the server gives by itself, where a request is not HTTP that it
  // takes (400), too large (413, 431), too slow (408), or one too many (503).
  std::function<std::string(int status, std::string_view message)> error_body;
  // Told of every such answer, on the thread of run().
  std::function<void(int status, std::string_view message, std::string_view client)> on_refusal;
};

// One thread runs all connections.
class HttpServer {
 public:
  // Binds and listens; an error says why not. `handler` is called on the thread of run().
  static Result<std::unique_ptr<HttpServer>> listen(HttpOptions options, HttpHandler handler);
  virtual ~HttpServer() = default;

  virtual uint16_t port() const = 0;
  virtual std::string address() const = 0;  // "127.0.0.1:8080", "[::1]:8080"
  // Serves until all is over.
  virtual void run() = 0;
  // From any thread: no further connections and requests; those whose request has been read get
  // their answers, up to `limit`; then run() returns. A second call ends at once.
  virtual void stop(std::chrono::milliseconds limit) = 0;
  virtual int connections() const = 0;
};

}  // namespace fovea::serve
