// SPDX-License-Identifier: Apache-2.0
#include "serve/http/http_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>
#include <utility>

#include "serve/http/http_chunks.h"

namespace fovea::serve {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

using State = HttpParser::State;

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

// access.h looks at Host, and a proxy before the server may route by it: no room for two readings.
bool is_host(std::string_view value) {
  return std::none_of(value.begin(), value.end(), [](char c) {
    return c == ' ' || c == '\t' ||
           std::string_view("/\\@?#,\"<>").find(c) != std::string_view::npos;
  });
}

bool is_length(std::string_view value) {
  return !value.empty() && value.size() <= 19 &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

// Beast calls the on_..._impl functions as it reads. It takes only whole heads from here, so that
// what it calls a head and what is checked here are the same bytes.
class HttpParser::Impl final : public http::basic_parser<true> {
 public:
  State state = State::kHead;
  int status = 0;
  std::string message;
  bool keeps_alive = false;
  bool http_1_0 = false;
  bool no_body = false;
  bool continues = false;
  HttpRequest request;

  explicit Impl(const HttpLimits& limits) : limits_(limits) {
    skip(true);
    header_limit(static_cast<uint32_t>(std::min<size_t>(limits.header_bytes + 1, UINT32_MAX)));
  }

  void take(std::string& input) {
    if (state == State::kHead) take_head(input);
    if (state == State::kBody) take_body(input);
  }

  // A length is only promised: no more memory is touched for it than as much again as has come,
  // and 16 times that is the most that is asked for, so that what has come is seldom moved.
  std::span<char> body_room() {
    constexpr size_t kLeast = size_t{32} << 10;
    constexpr size_t kMost = size_t{256} << 10;
    constexpr size_t kAhead = 16;
    std::string& body = request.body;
    const size_t have = body.size();
    if (state != State::kBody || is_chunked_ || have < kLeast) return {};
    const size_t size = std::min<uint64_t>(length_, have + std::min(have, kMost));
    if (size > body.capacity()) body.reserve(std::min<uint64_t>(length_, kAhead * have));
    body.resize(size);
    room_ = size - have;
    return {body.data() + have, room_};
  }

  void filled(size_t bytes) {
    request.body.resize(request.body.size() - room_ + bytes);
    room_ = 0;
    if (request.body.size() == length_) state = State::kWhole;
  }

 private:
  bool refuse(int its_status, std::string its_message) {
    state = State::kBad;
    status = its_status;
    message = std::move(its_message);
    return false;
  }

  // These are false where the request is bad.
  bool take_head(std::string& input) {
    // A request may have empty lines before it: old clients sent one behind a body.
    size_t blank = 0;
    while (input.compare(blank, 2, "\r\n") == 0) blank += 2;
    if (blank > 0) {
      input.erase(0, blank);
      blank_bytes_ += blank;
      seen_ = 0;
    }
    const size_t found = input.find("\r\n\r\n", seen_ < 3 ? 0 : seen_ - 3);
    const bool is_whole = found != std::string::npos;
    const size_t size = is_whole ? found + 4 : input.size();
    if (blank_bytes_ + size > limits_.header_bytes)
      return refuse(
          431, fmt::format("the request's head is larger than {} bytes", limits_.header_bytes));
    // Looked at as it comes: what is not HTTP at all (TLS) is told at once, not after a time limit.
    if (!check_bytes(std::string_view(input).substr(0, size))) return false;
    seen_ = size == 0 ? 0 : size - 1;  // the last again, with what follows it
    if (!is_whole) return true;
    beast::error_code error;
    const size_t used = put(boost::asio::const_buffer(input.data(), size), error);
    if (error) return refuse(400, fmt::format("the request is not HTTP: {}", error.message()));
    if (used != size || !is_done()) return refuse(400, "the request's head is not HTTP");
    if (!check_head()) return false;
    input.erase(0, size);
    state = is_chunked_ || length_ > 0 ? State::kBody : State::kWhole;
    return true;
  }

  bool check_bytes(std::string_view head) {
    for (size_t i = seen_; i < head.size(); ++i) {
      const char c = head[i];
      if (c == '\r' || c == '\n') {
        // Either one alone ends a line for some readers. One at the end may have its other half yet
        // to come.
        const bool paired =
            c == '\r' ? i + 1 == head.size() || head[i + 1] == '\n' : i > 0 && head[i - 1] == '\r';
        if (!paired) return refuse(400, "a line of the request's head does not end in CR LF");
      } else if (is_control(c)) {
        return refuse(400, "the request's head has a control byte");
      } else if ((c == ' ' || c == '\t') && i > 0 && head[i - 1] == '\n') {
        return refuse(400, "the request's head has a folded line");
      }
    }
    return true;
  }

  // What Beast's own checks leave open.
  bool check_head() {
    const bool is_1_0 = http_1_0;
    const std::string* host = nullptr;
    const std::string* length = nullptr;
    const std::string* coding = nullptr;
    for (const auto& [name, value] : request.fields) {
      const std::string** one = nullptr;
      if (name == "host") one = &host;
      if (name == "content-length") one = &length;
      if (name == "transfer-encoding") one = &coding;
      if (one == nullptr) continue;
      if (*one != nullptr)
        return refuse(400, fmt::format("the request has more than one field {}", name));
      *one = &value;
    }
    if (host == nullptr && !is_1_0) return refuse(400, "the request has no field host");
    if (host != nullptr && !is_host(*host)) return refuse(400, "the field host is not one");
    if (length != nullptr && !is_length(*length))
      return refuse(400, "the field content-length is not a number");
    if (coding != nullptr && (length != nullptr || is_1_0 || in_lower_case(*coding) != "chunked"))
      return refuse(400,
                    "a transfer-encoding is taken where it is chunked alone, without a "
                    "content-length, in HTTP/1.1");
    const std::string expected = in_lower_case(request.field("expect"));
    if (!expected.empty() && expected != "100-continue" && !is_1_0)
      return refuse(417, "the field expect may ask for 100-continue alone");
    continues = !expected.empty() && !is_1_0;
    is_chunked_ = coding != nullptr;
    const bool has_body = is_chunked_ || (length != nullptr && *length != "0");
    for (const auto& [name, value] : request.fields)
      if (has_body && name == "content-encoding" && in_lower_case(value) != "identity")
        return refuse(415, "the request's body is compressed (content-encoding); send it as it is");
    if (length != nullptr) length_ = std::stoull(*length);
    if (length_ > limits_.body_bytes) return refuse_size();
    keeps_alive = basic_parser::keep_alive();
    return split_target();
  }

  // "/path?query", or the same behind "http://host", or "*" for OPTIONS.
  bool split_target() {
    std::string_view target = target_;
    const auto odd = [](char c) { return static_cast<unsigned char>(c) >= 0x80 || c == '#'; };
    if (std::any_of(target.begin(), target.end(), odd))
      return refuse(400, "the request's target has a byte that is to be percent-encoded");
    const std::string start = in_lower_case(target.substr(0, 8));
    const size_t scheme = start.starts_with("http://") ? 7 : start == "https://" ? 8 : 0;
    if (scheme != 0) {
      target.remove_prefix(scheme);
      target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
    }
    const bool is_asterisk = target == "*" && request.method == "OPTIONS";
    if (!is_asterisk && !target.starts_with('/') && scheme == 0)
      return refuse(400, "the request's target does not start with a slash");
    const size_t mark = std::min(target.find('?'), target.size());
    request.path = target.substr(0, mark);
    if (request.path.empty()) request.path = "/";
    if (mark < target.size()) request.query = target.substr(mark + 1);
    return true;
  }

  bool take_body(std::string& input) {
    if (!is_chunked_) {
      const size_t size = std::min<uint64_t>(length_ - request.body.size(), input.size());
      request.body.append(input, 0, size);  // no memory is taken for a length that is only promised
      input.erase(0, size);
      if (request.body.size() == length_) state = State::kWhole;
      return true;
    }
    switch (chunks_.take(input, request.body)) {
      case HttpChunks::State::kMore:
        break;
      case HttpChunks::State::kWhole:
        state = State::kWhole;
        break;
      case HttpChunks::State::kBad:
        return refuse(400, "the request's body is not well chunked");
      case HttpChunks::State::kTooLarge:
        return refuse_size();
      case HttpChunks::State::kTooManyFields:
        return refuse(431, fmt::format("what is around the body's chunks is larger than {} bytes",
                                       limits_.header_bytes));
    }
    return true;
  }

  bool refuse_size() {
    return refuse(413,
                  fmt::format("the request's body is larger than {} bytes", limits_.body_bytes));
  }

  void on_request_impl(http::verb, beast::string_view method, beast::string_view target,
                       int version, beast::error_code&) override {
    no_body = method == "HEAD";
    request.method = no_body ? "GET" : std::string(method);
    target_ = std::string(target);
    http_1_0 = version == 10;
  }
  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}
  void on_field_impl(http::field, beast::string_view name, beast::string_view value,
                     beast::error_code&) override {
    request.fields.emplace_back(in_lower_case({name.data(), name.size()}), std::string(value));
  }
  void on_header_impl(beast::error_code&) override {}
  // Bodies are read here, not by Beast.
  void on_body_init_impl(const boost::optional<uint64_t>&, beast::error_code&) override {}
  size_t on_body_impl(beast::string_view, beast::error_code&) override { return 0; }
  void on_chunk_header_impl(uint64_t, beast::string_view, beast::error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, beast::string_view, beast::error_code&) override { return 0; }
  void on_finish_impl(beast::error_code&) override {}

  const HttpLimits& limits_;
  size_t blank_bytes_ = 0;
  size_t seen_ = 0;  // bytes of an unfinished head that were looked at
  bool is_chunked_ = false;
  uint64_t length_ = 0;
  size_t room_ = 0;  // bytes at the body's end that have not come yet
  HttpChunks chunks_{limits_};
  std::string target_;
};

HttpParser::HttpParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
HttpParser::~HttpParser() = default;

State HttpParser::take(std::string& input) {
  impl_->take(input);
  return impl_->state;
}

std::span<char> HttpParser::body_room() { return impl_->body_room(); }
void HttpParser::filled(size_t bytes) { impl_->filled(bytes); }
int HttpParser::status() const { return impl_->status; }
const std::string& HttpParser::message() const { return impl_->message; }
bool HttpParser::keep_alive() const { return impl_->keeps_alive; }
bool HttpParser::is_http_1_0() const { return impl_->http_1_0; }
bool HttpParser::wants_no_body() const { return impl_->no_body; }
bool HttpParser::wants_continue() const { return impl_->continues && impl_->request.body.empty(); }
size_t HttpParser::body_bytes() const { return impl_->request.body.size(); }
HttpRequest HttpParser::take_request() { return std::move(impl_->request); }

std::string_view HttpRequest::field(std::string_view lower_case_name) const {
  for (const auto& [name, value] : fields)
    if (name == lower_case_name) return value;
  return {};
}

std::string_view reason_phrase(int status) {
  const auto known = http::int_to_status(static_cast<unsigned>(status));
  const beast::string_view reason = http::obsolete_reason(known);
  return {reason.data(), reason.size()};
}

}  // namespace fovea::serve
