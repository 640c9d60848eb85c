// SPDX-License-Identifier: Apache-2.0
// The server over real sockets. Upper bounds of time are generous: the machine may be busy.
#include "serve/http/http.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <mutex>
#include <new>
#include <random>
#include <thread>

namespace fovea::serve {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // and what is freed is kept for a while
#else
constexpr bool kIsSanitized = false;
#endif

constexpr milliseconds kSoon = 5s;  // what should take a moment, on a machine that is busy

bool wait_until(const std::function<bool()>& condition, milliseconds limit = kSoon) {
  const auto end = steady_clock::now() + limit;
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

struct Reply {
  int status = 0;  // 0: the connection ended before
  std::string head;
  std::string body;
  bool is_whole = false;
};

// A client that says exactly what it is told to.
class Client {
 public:
  explicit Client(uint16_t port, int receive_bytes = 0) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0)
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0;
  }
  ~Client() { close(); }
  Client(Client&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), is_connected_(other.is_connected_) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_connected() const { return is_connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void close_with_reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  void half_close() { shutdown(socket_, SHUT_WR); }

  // False where the server takes no more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(size));
    }
    return true;
  }

  // What comes until `end` has been seen, or the connection ends.
  std::string read_until(std::string_view end) {
    size_t place = 0;
    while ((place = got_.find(end)) == std::string::npos)
      if (!receive()) return std::exchange(got_, "");
    const std::string result = got_.substr(0, place + end.size());
    got_.erase(0, place + end.size());
    return result;
  }
  std::string read_to_end() {
    while (receive()) continue;
    return std::exchange(got_, "");
  }
  bool has_ended() { return got_.empty() && !receive() && !timed_out_; }

  Reply read_reply(bool has_body = true) {
    Reply reply;
    reply.head = read_until("\r\n\r\n");
    if (!reply.head.ends_with("\r\n\r\n")) return reply;
    reply.status = std::stoi(reply.head.substr(9));
    const size_t length = reply.head.find("Content-Length: ");
    if (!has_body) {
      reply.is_whole = true;
    } else if (length != std::string::npos) {
      const size_t size = std::stoul(reply.head.substr(length + 16));
      while (got_.size() < size && receive()) continue;
      reply.is_whole = got_.size() >= size;
      reply.body = got_.substr(0, size);
      got_.erase(0, size);
    } else if (reply.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      for (;;) {
        const std::string line = read_until("\r\n");
        if (!line.ends_with("\r\n")) return reply;
        const size_t size = std::stoul(line, nullptr, 16);
        while (got_.size() < size + 2 && receive()) continue;
        reply.body += got_.substr(0, size);
        if (got_.size() < size + 2) return reply;
        got_.erase(0, size + 2);
        if (size == 0) break;
      }
      reply.is_whole = true;
    } else {
      reply.body = read_to_end();
      reply.is_whole = true;
    }
    return reply;
  }

  Reply get(std::string_view path) {
    send(fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", path));
    return read_reply();
  }

 private:
  bool receive() {
    char bytes[16384];
    const ssize_t size = recv(socket_, bytes, sizeof bytes, 0);
    if (size > 0) got_.append(bytes, static_cast<size_t>(size));
    timed_out_ = size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    return size > 0;
  }

  int socket_;
  bool is_connected_ = false;
  bool timed_out_ = false;
  std::string got_;
};

HttpReply text(int status, std::string body) {
  HttpReply reply;
  reply.status = status;
  reply.type = "text/plain";
  reply.body = std::move(body);
  return reply;
}

HttpReply events() {
  HttpReply reply;
  reply.type = "text/event-stream";
  return reply;
}

// A server on a thread, with a handler that tests understand.
class Serving {
 public:
  explicit Serving(const HttpLimits& limits = {}) {
    HttpOptions options;
    options.port = 0;
    options.limits = limits;
    options.error_body = [](int status, std::string_view message) {
      return fmt::format("{{\"error\":\"{} {}\"}}", status, message);
    };
    options.on_refusal = [this](int status, std::string_view, std::string_view client) {
      const std::lock_guard lock(mutex);
      refused.push_back(status);
      last_refused = client;
    };
    auto made = HttpServer::listen(std::move(options), [this](const auto& x) { handle(x); });
    if (!made) throw std::runtime_error(made.error().message);
    server_ = std::move(*made);
    thread_ = std::thread([this] {
      server_->run();
      has_returned = true;
    });
  }
  ~Serving() {
    server_->stop(0ms);
    thread_.join();
    held.clear();
    for (std::thread& worker : workers_) worker.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  Client client() { return Client(server_->port()); }
  bool is_empty() {
    return wait_until([this] { return server_->connections() == 0; });
  }
  // The exchanges of /hold.
  std::shared_ptr<HttpExchange> take_held() {
    if (!wait_until([this] { return held_count > 0; })) return nullptr;
    const std::lock_guard lock(mutex);
    auto result = held.back();
    held.pop_back();
    --held_count;
    return result;
  }

  std::string last_refused_client() {
    const std::lock_guard lock(mutex);
    return last_refused;
  }
  std::vector<int> refusals() {
    const std::lock_guard lock(mutex);
    return refused;
  }

  std::atomic<int> gone{0};
  std::atomic<int> held_count{0};
  std::atomic<int> handled{0};
  std::atomic<bool> has_returned{false};

 private:
  void handle(const std::shared_ptr<HttpExchange>& exchange) {
    const HttpRequest& request = exchange->request();
    ++handled;
    exchange->on_gone([this] { ++gone; });
    if (request.path == "/hold") {
      const std::lock_guard lock(mutex);
      held.push_back(exchange);
      ++held_count;
    } else if (request.path == "/later") {
      workers_.emplace_back([exchange] {
        std::this_thread::sleep_for(50ms);
        exchange->reply(text(200, "later"));
      });
    } else if (request.path == "/stream") {
      workers_.emplace_back([exchange] {
        exchange->begin_stream(events());
        for (int i = 0; i < 20; ++i) {
          exchange->send(fmt::format("data: {}\n\n", i));
          exchange->send("");
          if (i % 5 == 0) std::this_thread::sleep_for(1ms);
        }
        exchange->end_stream();
      });
    } else if (request.path == "/drop") {
    } else if (request.path == "/throw") {
      throw std::bad_alloc();
    } else if (request.path == "/split") {
      HttpReply reply = text(200, "x");
      reply.fields = {{"X-Good", "1"}, {"X-Bad", "1\r\nX-Worse: 2"}, {"Content-Length", "7"}};
      exchange->reply(std::move(reply));
    } else if (request.path == "/nothing") {
      exchange->reply(text(204, ""));
    } else {
      exchange->reply(text(200, fmt::format("{} {} {} {} {}", request.method, request.path,
                                            request.query, request.field("x-a"), request.body)));
    }
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<HttpExchange>> held;
  std::vector<int> refused;
  std::string last_refused;
  std::vector<std::thread> workers_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST(Http, AnswersGetPostAndHead) {
  Serving server;
  Client client = server.client();
  client.send("GET /a/b?c=d HTTP/1.1\r\nHost: h\r\nX-A: e\r\n\r\n");
  Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "GET /a/b c=d e ");
  EXPECT_NE(reply.head.find("HTTP/1.1 200 OK\r\n"), std::string::npos);
  EXPECT_NE(reply.head.find("Content-Type: text/plain\r\n"), std::string::npos);
  client.send("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_EQ(client.read_reply().body, "POST /p   hello");
  client.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
  reply = client.read_reply(false);
  EXPECT_NE(reply.head.find("Content-Length: 9\r\n"), std::string::npos) << reply.head;
  client.send("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
  reply = client.read_reply(false);
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.head.find("Content-Length"), std::string::npos);
  EXPECT_EQ(client.get("/again").body, "GET /again   ");  // all of it was one connection
  EXPECT_EQ(server->connections(), 1);
  EXPECT_EQ(server->address(), fmt::format("127.0.0.1:{}", server->port()));
}

TEST(Http, ClosesWhereTheClientAsksForIt) {
  Serving server;
  Client close = server.client();
  close.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_NE(close.read_reply().head.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(close.has_ended());
  Client old = server.client();
  old.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_NE(old.read_reply().head.find("Connection: keep-alive"), std::string::npos);
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_reply().status, 200);
  EXPECT_TRUE(old.has_ended());
}

TEST(Http, AnswersPipelinedRequestsInTheirOrder) {
  Serving server;
  Client client = server.client();
  client.send(
      "GET /later HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: "
      "1\r\n\r\nx"
      "GET /stream HTTP/1.1\r\nHost: h\r\n\r\nGET /4 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read_reply().body, "later");
  EXPECT_EQ(client.read_reply().body, "POST /2   x");
  EXPECT_TRUE(client.read_reply().body.ends_with("data: 19\n\n"));
  EXPECT_EQ(client.read_reply().body, "GET /4   ");
  EXPECT_EQ(server.gone, 0);
}

TEST(Http, TakesChunkedBodiesAndExpectations) {
  Serving server;
  Client client = server.client();
  client.send(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n");
  std::this_thread::sleep_for(20ms);
  client.send("2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_reply().body, "POST /   abcde");
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ab");
  EXPECT_EQ(client.read_reply().body, "POST /   ab");
  const std::string large(3'000'000, 'x');
  client.send(fmt::format("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{}",
                          large.size(), large));
  EXPECT_EQ(client.read_reply().body, "POST /   " + large);
}

TEST(Http, StreamsPiecesOfAnotherThread) {
  Serving server;
  Client client = server.client();
  std::string all;
  for (int i = 0; i < 20; ++i) all += fmt::format("data: {}\n\n", i);
  const Reply reply = client.get("/stream");
  EXPECT_EQ(reply.body, all);
  EXPECT_NE(reply.head.find("Cache-Control: no-cache\r\n"), std::string::npos);
  EXPECT_NE(reply.head.find("Content-Type: text/event-stream\r\n"), std::string::npos);
  client.send("HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read_reply(false).status, 200);
  EXPECT_EQ(client.get("/x").body, "GET /x   ");
  Client old = server.client();
  old.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string whole = old.read_to_end();
  EXPECT_TRUE(whole.ends_with("\r\n\r\n" + all)) << whole;
  EXPECT_EQ(whole.find("chunked"), std::string::npos);
  EXPECT_EQ(server.gone, 0);
}

TEST(Http, SendsTheHeadOfAStreamAtOnceAndPings) {
  HttpLimits limits;
  limits.ping_time = 50ms;
  Serving server(limits);
  Client client = server.client();
  client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto exchange = server.take_held();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(events());
  EXPECT_EQ(client.read_until("\r\n\r\n").substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_TRUE(client.read_until(": ping\n\n\r\n").ends_with("8\r\n: ping\n\n\r\n"));
  exchange->send("data: a\n");  // half an event: a comment would end it
  EXPECT_TRUE(client.read_until("data: a\n\r\n").ends_with("8\r\ndata: a\n\r\n"));
  std::this_thread::sleep_for(200ms);
  exchange->send("data: b\n\n");
  EXPECT_EQ(client.read_until("data: b\n\n\r\n"), "9\r\ndata: b\n\n\r\n");
  EXPECT_TRUE(client.read_until(": ping\n\n\r\n").ends_with("8\r\n: ping\n\n\r\n"));
  exchange->end_stream();
  EXPECT_TRUE(client.read_until("0\r\n\r\n").ends_with("0\r\n\r\n"));
}

TEST(Http, NoticesAClientThatGoes) {
  Serving server;
  int expected = 0;
  for (const bool streams : {false, true}) {
    for (const bool resets : {false, true}) {
      for (const size_t ahead : {0, 100, 100'000}) {  // bytes behind its request, unread
        SCOPED_TRACE(fmt::format("streams {}, resets {}, ahead {}", streams, resets, ahead));
        Client client = server.client();
        client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n" + std::string(ahead, 'x'));
        const auto exchange = server.take_held();
        ASSERT_NE(exchange, nullptr);
        if (streams) {
          exchange->begin_stream(events());
          exchange->send("data: a\n\n");
          client.read_until("data: a\n\n");
        }
        std::this_thread::sleep_for(10ms);
        EXPECT_EQ(server.gone, expected);
        if (resets)
          client.close_with_reset();
        else
          client.close();
        EXPECT_TRUE(wait_until([&] { return server.gone == expected + 1; }));
        exchange->send("data: b\n\n");  // into nothing
        exchange->end_stream();
        exchange->reply(text(200, ""));
        std::atomic<bool> told = false;
        exchange->on_gone([&] { told = true; });
        EXPECT_TRUE(wait_until([&] { return told.load(); }));
        EXPECT_TRUE(server.is_empty());
        EXPECT_EQ(server.gone, ++expected);  // once
      }
    }
  }
}

TEST(Http, AnswersAClientThatHalfClosesWhereTheAnswerIsThere) {
  Serving server;
  Client client = server.client();
  client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  client.half_close();
  EXPECT_EQ(client.read_reply().body, "GET /a   ");
  EXPECT_EQ(client.read_reply().body, "GET /b   ");
  EXPECT_TRUE(client.has_ended());
  EXPECT_EQ(server.gone, 0);
}

TEST(Http, EndsSlowAndIdleConnections) {
  HttpLimits limits;
  limits.header_time = 200ms;
  limits.body_time = 200ms;
  limits.idle_time = 400ms;
  Serving server(limits);
  Client head = server.client();
  Client body = server.client();
  Client chunks = server.client();
  Client idle = server.client();
  body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n");
  chunks.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  head.send("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 30; ++i) {  // a byte now and then is no help
    head.send("a");
    body.send("b");
    chunks.send("1\r\nc\r\n");
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(head.read_reply().status, 408);
  EXPECT_EQ(body.read_reply().status, 408);
  EXPECT_EQ(chunks.read_reply().status, 408);
  EXPECT_TRUE(head.has_ended());
  EXPECT_TRUE(body.has_ended());
  EXPECT_TRUE(chunks.has_ended());
  EXPECT_TRUE(idle.has_ended());
  EXPECT_EQ(server.handled, 0);
}

TEST(Http, RefusesWhatIsTooLarge) {
  HttpLimits limits;
  limits.header_bytes = 2000;
  limits.body_bytes = 10'000;
  Serving server(limits);
  const std::string large(2'000'000, 'x');
  const auto status = [&](const std::string& bytes) {
    Client client = server.client();
    client.send(bytes);
    const Reply reply = client.read_reply();
    EXPECT_NE(reply.head.find("Connection: close"), std::string::npos);
    EXPECT_NE(reply.body.find("{\"error\":"), std::string::npos);
    EXPECT_TRUE(client.has_ended());
    return reply.status;
  };
  EXPECT_EQ(status("GET /" + large), 431);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nA: " + large), 431);
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(status(post + "Content-Length: 10001\r\n\r\n"), 413);
  EXPECT_EQ(status(post + "Content-Length: 2000000\r\n\r\n" + large), 413);
  EXPECT_EQ(status(post + "Expect: 100-continue\r\nContent-Length: 10001\r\n\r\n"), 413);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n2711\r\n"), 413);
  std::string chunks;
  for (int i = 0; i < 100; ++i) chunks += "80\r\n" + std::string(128, 'y') + "\r\n";
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n" + chunks), 413);
  EXPECT_EQ(status(post + "Transfer-Encoding: chunked\r\n\r\n1;" + large), 431);
  EXPECT_EQ(server.handled, 0);
  EXPECT_EQ(server.refusals(), (std::vector<int>{431, 431, 413, 413, 413, 413, 413, 431}));
  EXPECT_EQ(server.last_refused_client(), "127.0.0.1");
}

TEST(Http, RefusesBodiesThatAreTooMuchTogether) {
  HttpLimits limits;
  limits.all_bodies_bytes = 1500;
  Serving server(limits);
  const auto post = [](const char* path, size_t sent) {
    return fmt::format("POST {} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n{}", path,
                       std::string(sent, 'x'));
  };
  Client first = server.client();
  first.send(post("/hold", 1000));
  const auto held = server.take_held();
  ASSERT_TRUE(held);
  Client second = server.client();
  second.send(post("/", 400));  // in part
  Client third = server.client();
  third.send(post("/", 1000));
  EXPECT_EQ(third.read_reply().status, 503);
  EXPECT_EQ(server.refusals(), std::vector<int>{503});
  EXPECT_EQ(held->take_body().size(), 1000u);  // someone works on it
  second.send(std::string(600, 'x'));
  EXPECT_EQ(second.read_reply().status, 200);
  Client fourth = server.client();
  fourth.send(post("/", 1000));
  EXPECT_EQ(fourth.read_reply().status, 200);
  held->reply(text(200, "first"));
  EXPECT_EQ(first.read_reply().status, 200);
}

// The whole table is http_parser_test.cc's; here: one answer, then the end, and nothing behind it.
TEST(Http, EndsTheConnectionAfterABadRequest) {
  Serving server;
  const std::string next = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
  for (const std::string fields :
       {"Content-Length: 3\r\nContent-Length: 4\r\n", "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n", "Host: h\r\n", "A: \x01\r\n"}) {
    Client client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n0\r\n\r\n" + next);
    const std::string all = client.read_to_end();
    EXPECT_TRUE(all.starts_with("HTTP/1.1 400 Bad Request\r\n")) << fields << all;
    EXPECT_EQ(all.find("HTTP/1.1 ", 1), std::string::npos) << fields << all;
  }
  for (const std::string size : {"-2", "+5", "0x5", "10000000000000005", "", " 5", "5 "}) {
    Client client = server.client();
    client.send(
        fmt::format("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "{}\r\nabcde\r\n0\r\n\r\n{}",
                    size, next));
    const std::string all = client.read_to_end();
    EXPECT_TRUE(all.starts_with("HTTP/1.1 400 Bad Request\r\n")) << size << all;
    EXPECT_EQ(all.find("HTTP/1.1 ", 1), std::string::npos) << size << all;
  }
  EXPECT_EQ(server.handled, 0);
}

TEST(Http, TakesOnlySoManyConnectionsAndRequestsOfOne) {
  HttpLimits limits;
  limits.connections = 3;
  limits.requests_per_connection = 2;
  Serving server(limits);
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(server.client());
    EXPECT_EQ(clients.back().get("/").status, 200);
  }
  Client fourth = server.client();
  const Reply reply = fourth.get("/");
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.body.find("{\"error\":"), std::string::npos);
  EXPECT_TRUE(fourth.has_ended());
  EXPECT_EQ(server->connections(), 3);
  EXPECT_NE(clients[0].get("/").head.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(clients[0].has_ended());
  clients[0].close();
  EXPECT_TRUE(wait_until([&] { return server.client().get("/").status == 200; }));
}

TEST(Http, StopLetsAnswersEnd) {
  Serving server;
  Client idle = server.client();
  EXPECT_EQ(idle.get("/").status, 200);
  Client whole = server.client();
  whole.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto first = server.take_held();
  Client stream = server.client();
  stream.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\nGET /next HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto second = server.take_held();
  ASSERT_TRUE(first && second);
  second->begin_stream(events());
  stream.read_until("\r\n\r\n");
  Client half = server.client();
  half.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return server->connections() == 4; }));
  std::this_thread::sleep_for(50ms);
  server->stop(60s);
  EXPECT_TRUE(idle.has_ended());
  EXPECT_EQ(half.read_reply().status, 503);
  EXPECT_FALSE(server.client().is_connected());
  EXPECT_FALSE(server.has_returned);
  second->send("data: a\n\n");
  second->end_stream();
  EXPECT_EQ(stream.read_until("0\r\n\r\n"), "9\r\ndata: a\n\n\r\n0\r\n\r\n");
  EXPECT_EQ(stream.read_reply().status, 503);  // the one behind it had not been read
  first->reply(text(200, "done"));
  const Reply reply = whole.read_reply();
  EXPECT_EQ(reply.body, "done");
  EXPECT_NE(reply.head.find("Connection: close"), std::string::npos);
  half.close();
  stream.close();
  whole.close();
  EXPECT_TRUE(wait_until([&] { return server.has_returned.load(); }));
  EXPECT_EQ(server.gone, 0);
}

TEST(Http, StopEndsAtItsLimitAndAtTheSecondCall) {
  for (const bool twice : {false, true}) {
    Serving server;
    Client client = server.client();
    client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
    const auto exchange = server.take_held();
    ASSERT_NE(exchange, nullptr);
    server->stop(twice ? 60s : 50ms);
    if (twice) server->stop(60s);
    EXPECT_TRUE(wait_until([&] { return server.has_returned.load(); }));
    EXPECT_EQ(server.gone, 1);
    EXPECT_TRUE(client.has_ended());
    bool told = false;
    exchange->on_gone([&] { told = true; });  // the server's thread has gone too
    EXPECT_TRUE(told);
  }
}

TEST(Http, StopBeforeRunEndsIt) {
  auto server = HttpServer::listen({.port = 0, .limits = {}, .error_body = {}}, [](const auto&) {});
  ASSERT_TRUE(server);
  (*server)->stop(60s);
  (*server)->run();
  (*server)->stop(60s);
}

TEST(Http, ExchangesOutliveTheServer) {
  std::shared_ptr<HttpExchange> exchange;
  {
    Serving server;
    Client client = server.client();
    client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
    exchange = server.take_held();
  }
  ASSERT_NE(exchange, nullptr);
  EXPECT_EQ(exchange->request().path, "/hold");
  exchange->begin_stream(events());
  exchange->send("a");
  exchange->end_stream();
}

TEST(Http, AnswersWhereTheHandlerDoesNot) {
  Serving server;
  Client client = server.client();
  EXPECT_EQ(client.get("/drop").status, 500);
  EXPECT_EQ(client.get("/throw").status, 500);
  EXPECT_EQ(client.get("/a").status, 200);
  client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  auto exchange = server.take_held();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(events());
  exchange->send("data: a\n\n");
  exchange.reset();  // half a stream must not look whole
  EXPECT_FALSE(client.read_reply().is_whole);
  EXPECT_EQ(server.gone, 0);
}

TEST(Http, FieldsOfAnAnswerStayOneLine) {
  Serving server;
  const Reply reply = server.client().get("/split");
  EXPECT_EQ(reply.body, "x");
  EXPECT_NE(reply.head.find("X-Good: 1\r\n"), std::string::npos);
  EXPECT_EQ(reply.head.find("Worse"), std::string::npos);
  EXPECT_EQ(reply.head.find("Content-Length: 7"), std::string::npos);
}

TEST(Http, EndsStreamsThatNobodyReads) {
  HttpLimits limits;
  limits.unsent_bytes = size_t{1} << 20;
  Serving server(limits);
  Client client(server->port(), 4096);
  client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto exchange = server.take_held();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(events());
  const std::string piece(100'000, 'x');
  for (int i = 0; i < 500 && server.gone == 0; ++i) {  // the system takes some megabytes
    exchange->send(piece);
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_TRUE(wait_until([&] { return server.gone == 1; }));
  EXPECT_TRUE(server.is_empty());
}

TEST(Http, EndsAnswersOfWhichNothingIsTaken) {
  HttpLimits limits;
  limits.write_time = 300ms;
  limits.unsent_bytes = size_t{256} << 20;
  Serving server(limits);
  const std::string large(30'000'000, 'x');
  Client stream(server->port(), 4096);
  stream.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto first = server.take_held();
  Client whole(server->port(), 4096);
  whole.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto second = server.take_held();
  ASSERT_TRUE(first && second);
  first->begin_stream(events());
  first->send(large);
  second->reply(text(200, large));
  EXPECT_TRUE(server.is_empty());
  EXPECT_EQ(server.gone, 1);  // the other's answer had been given
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

rlim_t allow_files(rlim_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(count, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

TEST(Http, HoldsManyIdleConnections) {
  const rlim_t before = allow_files(4096);
  {
    Serving server;
    std::vector<Client> clients;
    for (int i = 0; i < 500; ++i) clients.push_back(server.client());
    EXPECT_TRUE(wait_until([&] { return server->connections() == 500; }));
    for (size_t i = 0; i < clients.size(); i += 7) EXPECT_EQ(clients[i].get("/").status, 200);
    // What bodies took goes back: 2,000 connections are to cost less than 64 MiB, 32 KiB each. The
    // first bodies are not counted: the program itself grows by them once.
    const std::string post =
        fmt::format("POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n{}",
                    std::string(100'000, 'x'));
    int64_t start = 0;
    for (size_t i = 0; i < clients.size(); ++i) {
      if (i == 100) start = resident_bytes();
      clients[i].send(post);
      EXPECT_EQ(clients[i].read_reply(false).status, 204);
    }
    const int64_t most = int64_t{400} * 32 * 1024;
    if (!kIsSanitized) {
      EXPECT_LT(resident_bytes() - start, most);
    }
    clients.clear();
    EXPECT_TRUE(server.is_empty());
  }
  allow_files(before);
}

double seconds_of_cpu() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST(Http, WaitsWhereThereAreNoFileDescriptors) {
  Serving server;
  EXPECT_EQ(server.client().get("/").status, 200);
  Client first = server.client();
  EXPECT_EQ(first.get("/").status, 200);
  const int next = dup(0);  // the lowest that is free: the next client's, and none for the server
  ASSERT_GE(next, 0);
  close(next);
  const rlim_t before = allow_files(static_cast<rlim_t>(next) + 1);
  Client client = server.client();
  const double start = seconds_of_cpu();
  EXPECT_TRUE(client.is_connected());
  client.send("GET /late HTTP/1.1\r\nHost: h\r\n\r\n");
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(first.get("/").status, 200);
  EXPECT_LT(seconds_of_cpu() - start, 0.15);
  EXPECT_EQ(server->connections(), 1);
  allow_files(before);
  EXPECT_EQ(client.read_reply().body, "GET /late   ");
}

TEST(Http, SurvivesGarbage) {
  HttpLimits limits;
  limits.header_time = 100ms;
  limits.body_time = 100ms;
  Serving server(limits);
  std::mt19937 random(11);
  const std::string_view words[] = {"GET ",
                                    "/ ",
                                    "HTTP/1.1\r\n",
                                    "Host: a\r\n",
                                    "POST ",
                                    "\r\n",
                                    "Content-Length: ",
                                    "5\r\n",
                                    "Transfer-Encoding: chunked\r\n",
                                    "0\r\n\r\n",
                                    ": ",
                                    "\n",
                                    "/stream "};
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (unsigned part = 1 + random() % 12; part > 0; --part) {
      if (random() % 3 == 0)
        for (unsigned size = random() % 30; size > 0; --size) bytes += static_cast<char>(random());
      else
        bytes += words[random() % std::size(words)];
    }
    Client client = server.client();
    client.send(bytes);
    if (random() % 8 == 0) client.half_close();
    if (random() % 64 == 0) client.read_to_end();
    if (random() % 8 == 0) client.close_with_reset();
  }
  EXPECT_EQ(server.client().get("/a").body, "GET /a   ");
  EXPECT_TRUE(server.is_empty());
}

TEST(Http, SaysWhyItCannotListen) {
  Serving server;
  HttpOptions options;
  options.port = server->port();
  const auto busy = HttpServer::listen(options, [](const auto&) {});
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().message, fmt::format("cannot listen on 127.0.0.1:{}: Address already in "
                                              "use; try another port",
                                              server->port()));
  options.host = "no.such.host";
  const auto no_address = HttpServer::listen(options, [](const auto&) {});
  ASSERT_FALSE(no_address);
  EXPECT_EQ(no_address.error().kind, Error::Kind::kBadInput);
  options.host = "203.0.113.1";  // of no machine (RFC 5737)
  const auto foreign = HttpServer::listen(options, [](const auto&) {});
  ASSERT_FALSE(foreign);
  EXPECT_NE(foreign.error().message.find("try an address of this machine"), std::string::npos);
}

}  // namespace
}  // namespace fovea::serve
