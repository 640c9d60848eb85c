// SPDX-License-Identifier: Apache-2.0
// One request out of the bytes of a connection. Boost.Beast reads it; what Beast lets pass and
// another server on the way could read otherwise (request smuggling) is refused.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace fovea::serve {

class HttpParser {
 public:
  enum class State { kHead, kBody, kWhole, kBad };  // what is being read, or how it ended

  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // Takes what belongs to the request from the front of `input`. Call it again when more has come.
  State take(std::string& input);

  // Where the next bytes of the body may be read to, so that they need not be given to take(): none
  // until some have come, and in chunked bodies. filled() tells how many of them have come.
  std::span<char> body_room();
  void filled(size_t bytes);

  // Of a request that is kBad: the answer's status, and a sentence for people.
  int status() const;
  const std::string& message() const;

  // Of one whose head has been read:
  bool keep_alive() const;
  bool is_http_1_0() const;
  bool wants_no_body() const;   // HEAD
  bool wants_continue() const;  // waits for "100 Continue", having sent nothing of the body yet
  size_t body_bytes() const;    // that have come so far
  // Of one that is kWhole, once.
  HttpRequest take_request();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// "Not Found" for 404; Beast knows them.
std::string_view reason_phrase(int status);

}  // namespace fovea::serve
