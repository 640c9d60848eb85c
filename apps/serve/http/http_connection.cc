// SPDX-License-Identifier: Apache-2.0
#include "serve/http/http_connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "serve/http/http_head.h"

namespace fovea::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Bytes of later requests that are read while one is answered: only to see whether the client goes.
constexpr size_t kReadAhead = size_t{64} << 10;
// Where there are more, its going is looked for this often.
constexpr milliseconds kLookTime{200};
// How long what a client still sends is read after the last answer. Closing before that would reset
// the connection, and the client could lose the answer.
constexpr milliseconds kLingerTime{2000};

// Bytes of a body that are read one after the other while other connections wait.
constexpr size_t kReadAtOnce = size_t{1} << 20;

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kPing = ": ping\n\n";

steady_clock::time_point from_now(milliseconds time) {
  return steady_clock::now() + std::min<milliseconds>(time, std::chrono::hours(24 * 365));
}

// The bytes of texts that live while they are sent.
std::array<asio::const_buffer, 3> bytes_of(std::string_view a, std::string_view b = {},
                                           std::string_view c = {}) {
  return {asio::const_buffer(a.data(), a.size()), asio::const_buffer(b.data(), b.size()),
          asio::const_buffer(c.data(), c.size())};
}

bool would_block(const error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

// Ends what an answer's maker and its connection share, however the connection is left.
struct Leave {
  HttpAnswer& answer;
  explicit Leave(HttpAnswer& its_answer) : answer(its_answer) {}
  ~Leave() { answer.leave(); }
  Leave(const Leave&) = delete;
  Leave& operator=(const Leave&) = delete;
};

}  // namespace

struct HttpConnection::Sending {
  bool keep_alive = false;
  bool http_1_0 = false;
  bool wants_no_body = false;
  bool begun = false;
  bool pings = false;  // a comment means something in this stream
  bool between_events = true;
  steady_clock::time_point ping_at = steady_clock::time_point::max();
};

HttpConnection::HttpConnection(std::shared_ptr<HttpLoop> loop, asio::ip::tcp::socket socket,
                               bool is_refused)
    : loop_(std::move(loop)),
      limits_(loop_->options.limits),
      socket_(std::move(socket)),
      timer_(loop_->io),
      is_refused_(is_refused) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  // Bytes that the system has taken and the client never acknowledges.
  const auto time = std::clamp<int64_t>(limits_.write_time.count(), 1, INT32_MAX);
  const auto unsigned_time = static_cast<unsigned>(time);
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unsigned_time,
             sizeof unsigned_time);
  const auto peer = socket_.remote_endpoint(ignored);
  if (!ignored) client_ = peer.address().to_string();
  loop_->all.insert(this);
  if (is_refused_)
    ++loop_->refused;
  else
    loop_->count.fetch_add(1, std::memory_order_relaxed);
}

HttpConnection::~HttpConnection() {
  loop_->all.erase(this);
  if (is_refused_)
    --loop_->refused;
  else
    loop_->count.fetch_sub(1, std::memory_order_relaxed);
  if (loop_->stopping && loop_->all.empty()) cancel(loop_->end_time);
}

void HttpConnection::wake() noexcept { cancel(timer_); }

HttpRoot HttpConnection::serve(std::shared_ptr<HttpConnection> self) {
  try {
    bool goes_on = !self->is_refused_;
    while (goes_on) goes_on = co_await self->serve_request();
    if (self->is_refused_)
      co_await self->refuse(503, "the server has too many connections; try again later", false);
  } catch (...) {  // memory ran out: this connection ends, the others go on
  }
}

auto HttpConnection::pause(Clock::time_point until) {
  timer_.expires_at(until);
  return HttpWait{[this](auto handler) { timer_.async_wait(handler); }};
}

void HttpConnection::watch_input() {
  if (watches_input_) return;
  socket_.async_wait(asio::socket_base::wait_read, [weak = weak_from_this()](error_code) {
    const auto self = weak.lock();
    if (!self) return;
    self->watches_input_ = false;
    self->wake();
  });
  watches_input_ = true;
}

void HttpConnection::watch_output() {
  if (watches_output_) return;
  socket_.async_wait(asio::socket_base::wait_write, [weak = weak_from_this()](error_code) {
    const auto self = weak.lock();
    if (!self) return;
    self->watches_output_ = false;
    self->wake();
  });
  watches_output_ = true;
}

HttpConnection::Got HttpConnection::read_now() {
  error_code error;
  const size_t size = socket_.read_some(asio::buffer(loop_->scratch), error);
  if (would_block(error) || error == asio::error::interrupted) return Got::kNothing;
  if (error || size == 0) return Got::kEnd;
  input_.append(loop_->scratch.data(), size);
  return Got::kBytes;
}

HttpConnection::Got HttpConnection::read_body(HttpParser& parser) {
  const std::span<char> room = parser.body_room();
  if (room.empty()) return Got::kNothing;
  error_code error;
  const size_t size = socket_.read_some(asio::buffer(room.data(), room.size()), error);
  parser.filled(error ? 0 : size);
  if (would_block(error) || error == asio::error::interrupted) return Got::kNothing;
  return error || size == 0 ? Got::kEnd : Got::kBytes;
}

HttpTask<HttpConnection::Got> HttpConnection::read_more(Clock::time_point until) {
  for (;;) {
    watch_input();
    co_await pause(until);
    if (loop_->ended) co_return Got::kEnd;
    if (Clock::now() >= until) co_return Got::kLate;  // bytes or not: slow ones come at any time
    const Got got = read_now();
    if (got != Got::kNothing) co_return got;
    if (loop_->stopping) co_return Got::kStop;
  }
}

HttpTask<bool> HttpConnection::wait_for_request() {
  if (!input_.empty()) co_return true;
  std::string().swap(input_);  // an idle connection keeps no memory; assigning would keep it
  if (loop_->stopping) co_return read_now() == Got::kBytes;
  const Got got = co_await read_more(from_now(limits_.idle_time));
  co_return got == Got::kBytes;
}

HttpTask<bool> HttpConnection::read_request(HttpParser& parser, CountedBody& body) {
  using State = HttpParser::State;
  auto until = from_now(limits_.header_time);
  bool in_body = false;
  size_t bytes_at_pause = 0;
  for (;;) {
    // A stop that comes before the last byte of this request goes first: it was promised nothing.
    if (loop_->stopping) {
      co_return co_await refuse(503, "the server is about to end; try again later",
                                parser.wants_no_body());
    }
    const State state = parser.take(input_);
    body.set(parser.body_bytes());
    if (body.is_too_much()) {
      (void)parser.take_request();  // at once: the client may take its time to go
      body.set(0);
      co_return co_await refuse(503, "the server has too many large requests; try again later",
                                parser.wants_no_body());
    }
    if (state == State::kWhole) co_return true;
    if (state == State::kBad) {
      co_return co_await refuse(parser.status(), parser.message(), parser.wants_no_body());
    }
    if (state == State::kBody && !in_body) {
      in_body = true;
      until = from_now(limits_.body_time);
      const bool waits = parser.wants_continue() && input_.empty();
      if (waits) {
        const bool is_sent = co_await write(bytes_of(kContinue), nullptr);
        if (!is_sent) co_return false;
      }
    }
    // What is there already is read without a pause, up to a limit: others want to be served.
    Got got = Got::kNothing;
    if (parser.body_bytes() - bytes_at_pause < kReadAtOnce) got = read_body(parser);
    if (got == Got::kBytes) continue;
    if (got == Got::kNothing) {
      bytes_at_pause = parser.body_bytes();
      got = co_await read_more(until);
    }
    if (got == Got::kEnd) co_return false;
    if (got == Got::kLate) {
      co_return co_await refuse(408, "the request took too long to arrive", parser.wants_no_body());
    }
  }
}

HttpTask<bool> HttpConnection::serve_request() {
  const bool has_come = co_await wait_for_request();
  if (!has_come) co_return false;
  Sending sending;
  HttpRequest request;
  CountedBody body(loop_);
  {
    HttpParser parser(limits_);
    const bool is_read = co_await read_request(parser, body);
    if (!is_read) co_return false;
    sending.http_1_0 = parser.is_http_1_0();
    sending.wants_no_body = parser.wants_no_body();
    sending.keep_alive = parser.keep_alive() && ++requests_ < limits_.requests_per_connection;
    request = parser.take_request();
  }
  request.client = client_;
  const auto answer = std::make_shared<HttpAnswer>(loop_, *this);
  const Leave leave(*answer);
  std::shared_ptr<HttpExchange> exchange;
  try {
    exchange = make_exchange(answer, std::move(request), std::move(body));
  } catch (...) {  // memory ran out, and there is no exchange that could be dropped
    answer->drop();
  }
  try {
    if (exchange) loop_->handler(std::move(exchange));
  } catch (...) {  // its memory ran out; the exchange that it has dropped answers
  }
  const bool is_sent = co_await send_answer(*answer, sending);
  if (!is_sent) co_return false;
  answer->leave();
  if (!sending.keep_alive) co_return co_await linger();
  co_return true;
}

HttpTask<bool> HttpConnection::send_answer(HttpAnswer& answer, Sending& sending) {
  using Kind = HttpAnswer::Part::Kind;
  bool is_well = true;
  while (is_well && !loop_->ended) {
    if (loop_->stopping && !sending.begun) sending.keep_alive = false;
    const HttpAnswer::Part part = answer.next();
    switch (part.kind) {
      case Kind::kNothing:
        is_well = co_await wait_for_part(answer, sending);
        break;
      case Kind::kWhole:
        co_return co_await write_whole(part.reply, sending);
      case Kind::kDropped: {
        const HttpReply reply = own_reply(loop_->options, 500, "the request was left unanswered");
        co_return co_await write_whole(reply, sending);
      }
      case Kind::kBegin: {
        sending.begun = true;
        if (sending.http_1_0) sending.keep_alive = false;
        sending.pings = part.reply.type.starts_with("text/event-stream") && !sending.wants_no_body;
        sending.ping_at = from_now(limits_.ping_time);
        const auto framing = sending.http_1_0 ? Framing::kUntilClose : Framing::kChunked;
        const std::string head = reply_head(part.reply, framing, sending.keep_alive);
        is_well = co_await write(bytes_of(head), &answer);
        break;
      }
      case Kind::kPieces:
        sending.between_events = part.pieces.ends_with("\n\n");
        sending.ping_at = from_now(limits_.ping_time);
        is_well = co_await write_pieces(part.pieces, sending, answer);
        break;
      case Kind::kEnd: {
        if (sending.http_1_0 || sending.wants_no_body) co_return true;
        co_return co_await write(bytes_of("0\r\n\r\n"), nullptr);
      }
      case Kind::kBroken:
        co_return false;
    }
  }
  co_return false;
}

HttpTask<bool> HttpConnection::wait_for_part(HttpAnswer& answer, Sending& sending) {
  const bool pings = sending.pings && sending.between_events;
  auto until = pings ? sending.ping_at : Clock::time_point::max();
  if (input_.size() < kReadAhead)
    watch_input();
  else
    until = std::min(until, from_now(kLookTime));
  co_await pause(until);
  if (client_has_gone()) co_return false;
  if (!pings || Clock::now() < sending.ping_at) co_return true;
  sending.ping_at = from_now(limits_.ping_time);
  co_return co_await write_pieces(kPing, sending, answer);
}

// Where the client has closed its side before the answer has ended, it is taken to be gone, though
// it might still read (`nc -N`): the system tells the two apart only by what is sent later, and a
// client that has gone must free what its answer takes. An answer that is there at once, or that
// has its end, is sent even so.
bool HttpConnection::client_has_gone() {
  if (watches_input_) return false;  // nothing came
  if (input_.size() < kReadAhead) return read_now() == Got::kEnd;
  tcp_info info{};
  socklen_t size = sizeof info;
  const int failed = getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size);
  return failed != 0 || info.tcpi_state != TCP_ESTABLISHED;
}

HttpTask<bool> HttpConnection::write(Buffers parts, HttpAnswer* stream) {
  auto until = from_now(limits_.write_time);
  while (asio::buffer_size(parts) > 0) {
    error_code error;
    size_t sent = socket_.write_some(parts, error);
    if (sent > 0) until = from_now(limits_.write_time);
    for (asio::const_buffer& part : parts) {
      const size_t size = std::min(sent, part.size());
      part += size;
      sent -= size;
    }
    if (!error || error == asio::error::interrupted) continue;
    if (!would_block(error) || loop_->ended || Clock::now() >= until) co_return false;
    watch_output();
    if (stream != nullptr && input_.size() < kReadAhead) watch_input();
    co_await pause(until);
    if (stream != nullptr && (client_has_gone() || stream->is_broken())) co_return false;
  }
  co_return true;
}

HttpTask<bool> HttpConnection::write_whole(const HttpReply& reply, const Sending& sending) {
  const std::string head = reply_head(reply, Framing::kLength, sending.keep_alive);
  std::string_view body;
  if (!sending.wants_no_body && may_have_body(reply.status)) body = reply.body;
  co_return co_await write(bytes_of(head, body), nullptr);
}

HttpTask<bool> HttpConnection::write_pieces(std::string_view pieces, const Sending& sending,
                                            HttpAnswer& answer) {
  if (sending.wants_no_body) co_return true;
  if (sending.http_1_0) co_return co_await write(bytes_of(pieces), &answer);
  const std::string size = fmt::format("{:x}\r\n", pieces.size());
  co_return co_await write(bytes_of(size, pieces, "\r\n"), &answer);
}

HttpTask<bool> HttpConnection::refuse(int status, std::string_view message, bool wants_no_body) {
  if (loop_->options.on_refusal) loop_->options.on_refusal(status, message, client_);
  const HttpReply reply = own_reply(loop_->options, status, message);
  Sending sending;
  sending.wants_no_body = wants_no_body;
  const bool is_sent = co_await write_whole(reply, sending);
  if (is_sent) co_await linger();
  co_return false;
}

HttpTask<bool> HttpConnection::linger() {
  error_code error;
  socket_.shutdown(asio::socket_base::shutdown_send, error);
  const auto until = from_now(kLingerTime);
  while (!error && !loop_->ended && Clock::now() < until) {
    input_.clear();
    if (read_now() == Got::kEnd) break;
    watch_input();
    co_await pause(until);
  }
  co_return false;
}

}  // namespace fovea::serve
