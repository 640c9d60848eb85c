// SPDX-License-Identifier: Apache-2.0
#include "serve/http/http_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace fovea::serve {
namespace {

using State = HttpParser::State;

HttpLimits small_limits() {
  HttpLimits limits;
  limits.header_bytes = 512;
  limits.body_bytes = 1000;
  return limits;
}

// What becomes of `bytes` that come in pieces of `step`.
struct Outcome {
  State state = State::kHead;
  int status = 0;
  HttpRequest request;
  std::string left;
};

Outcome parse(std::string_view bytes, size_t step, const HttpLimits& limits = small_limits()) {
  HttpParser parser(limits);
  Outcome outcome;
  std::string input;
  while (!bytes.empty() && (outcome.state == State::kHead || outcome.state == State::kBody)) {
    input += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
    outcome.state = parser.take(input);
  }
  outcome.left = input + std::string(bytes);
  outcome.status = parser.status();
  if (outcome.state == State::kWhole) outcome.request = parser.take_request();
  return outcome;
}

std::string get(std::string_view fields) { return fmt::format("GET / HTTP/1.1\r\n{}\r\n", fields); }
std::string chunked(std::string_view body) {
  return fmt::format("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}", body);
}

struct Row {
  const char* what;
  std::string bytes;
  int status;  // 0: taken; -1: more is waited for
};

std::vector<Row> rows() {
  using namespace std::string_literals;
  const std::string host = "Host: a\r\n";
  return {
      {"plain", get(host), 0},
      {"empty lines before it", "\r\n\r\n" + get(host), 0},
      {"many empty lines before it",
       [] {
         std::string lines;
         for (int i = 0; i < 300; ++i) lines += "\r\n";
         return lines + get("Host: a\r\n");
       }(),
       431},
      {"no host", get(""), 400},
      {"two hosts", get(host + host), 400},
      {"host with a path", get("Host: a/b\r\n"), 400},
      {"host with a name and a blank", get("Host: a b\r\n"), 400},
      {"host with a port", get("Host: [::1]:80\r\n"), 0},
      {"empty host", get("Host:\r\n"), 0},
      {"HTTP/1.0 without host", "GET / HTTP/1.0\r\n\r\n", 0},
      {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 400},
      {"HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"HTTP/0.9", "GET /\r\n\r\n", 400},
      {"lower-case http", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
      {"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s, 400},
      {"bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400},
      {"bare CR", "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400},
      {"two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"tab for a blank", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"no method", " / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"method with a slash", "G/T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"blank before the colon", get("Host : a\r\n"), 400},
      {"no name", get(host + ": a\r\n"), 400},
      {"no colon", get(host + "abc\r\n"), 400},
      {"folded line", get(host + "A: b\r\n c\r\n"), 400},
      {"folded line of blanks", get(host + "A: b\r\n \r\n"), 400},
      {"first line folded", get(" A: b\r\n" + host), 400},
      {"NUL in a value", get(host + "A: b\0c\r\n"s), 400},
      {"NUL in a name", get(host + "A\0: b\r\n"s), 400},
      {"control byte in a value", get(host + "A: \x01\r\n"), 400},
      {"DEL in a value", get(host + "A: \x7f\r\n"), 400},
      {"vertical tab in a value", get(host + "Transfer-Encoding: \x0b" + "chunked\r\n"), 400},
      {"tab in a value", get(host + "A: b\tc\r\n"), 0},
      {"obs-text in a value", get(host + "A: \xe4\r\n"), 0},
      {"bad list in connection", get(host + "Connection: \"\r\n"), 400},
      {"asterisk of GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"asterisk of OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0},
      {"target without a slash", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"target of CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"ftp target", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"fragment in the target", "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"target that is not ASCII", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"length", get(host + "Content-Length: 3\r\n") + "abc", 0},
      {"length of 0", get(host + "Content-Length: 0\r\n"), 0},
      {"one length twice", get(host + "Content-Length: 3\r\nContent-Length: 3\r\n") + "abc", 400},
      {"two lengths", get(host + "Content-Length: 3\r\nContent-Length: 4\r\n") + "abcd", 400},
      {"list of lengths", get(host + "Content-Length: 3, 3\r\n") + "abc", 400},
      {"negative length", get(host + "Content-Length: -3\r\n"), 400},
      {"length with a plus", get(host + "Content-Length: +3\r\n") + "abc", 400},
      {"hexadecimal length", get(host + "Content-Length: 0x3\r\n") + "abc", 400},
      {"length with a blank", get(host + "Content-Length: 3 3\r\n") + "abc", 400},
      {"empty length", get(host + "Content-Length:\r\n"), 400},
      {"huge length", get(host + "Content-Length: 99999999999999999999\r\n"), 400},
      {"length over the limit", get(host + "Content-Length: 1001\r\n"), 413},
      {"chunked", chunked("3\r\nabc\r\n0\r\n\r\n"), 0},
      {"chunked in another case",
       get(host + "transfer-ENCODING:  ChunkeD \r\n") + "3\r\nabc\r\n0\r\n\r\n", 0},
      {"chunked and a length",
       get(host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n") + "0\r\n\r\n", 400},
      {"a length and chunked",
       get(host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400},
      {"a length and identity",
       get(host + "Content-Length: 3\r\nTransfer-Encoding: identity\r\n") + "abc", 400},
      {"chunked twice", get(host + "Transfer-Encoding: chunked, chunked\r\n") + "0\r\n\r\n", 400},
      {"chunked in two fields",
       get(host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
       400},
      {"gzip, chunked", get(host + "Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n", 400},
      {"chunked, gzip", get(host + "Transfer-Encoding: chunked, gzip\r\n") + "0\r\n\r\n", 400},
      {"identity", get(host + "Transfer-Encoding: identity\r\n"), 400},
      {"xchunked", get(host + "Transfer-Encoding: xchunked\r\n") + "0\r\n\r\n", 400},
      {"chunked;a", get(host + "Transfer-Encoding: chunked;a\r\n") + "0\r\n\r\n", 400},
      {"chunked in quotes", get(host + "Transfer-Encoding: \"chunked\"\r\n") + "0\r\n\r\n", 400},
      {"empty coding", get(host + "Transfer-Encoding:\r\n"), 400},
      {"chunked in HTTP/1.0",
       "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 400},
      {"chunk of -2", chunked("-2\r\nab\r\n0\r\n\r\n"), 400},
      {"chunk of +5", chunked("+5\r\nabcde\r\n0\r\n\r\n"), 400},
      {"chunk of 0x5", chunked("0x5\r\nabcde\r\n0\r\n\r\n"), 400},
      {"chunk size with a blank before", chunked(" 3\r\nabc\r\n0\r\n\r\n"), 400},
      {"chunk size with a blank behind", chunked("3 \r\nabc\r\n0\r\n\r\n"), 400},
      {"no chunk size", chunked("\r\nabc\r\n0\r\n\r\n"), 400},
      {"chunk size that overflows", chunked("10000000000000003\r\nabc\r\n0\r\n\r\n"), 400},
      {"chunk size of 2^64 - 1", chunked("ffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 413},
      {"chunk over the limit", chunked("3e9\r\n"), 413},
      {"chunks over the limit",
       chunked("3e8\r\n" + std::string(1000, 'a') + "\r\n1\r\na\r\n0\r\n\r\n"), 413},
      {"chunk longer than its size", chunked("2\r\nabc\r\n0\r\n\r\n"), 400},
      {"chunk size that ends in LF", chunked("3\nabc\r\n0\r\n\r\n"), 400},
      {"chunk that ends in LF", chunked("3\r\nabc\n0\r\n\r\n"), 400},
      {"chunk without its end", chunked("3\r\nab"), -1},
      {"no last chunk", chunked("3\r\nabc\r\n"), -1},
      {"extension", chunked("3;a=b;c=\"d e\"\r\nabc\r\n0\r\n\r\n"), 0},
      {"LF in an extension", chunked("3;a=\"\n\"\r\nabc\r\n0\r\n\r\n"), 400},
      {"endless extension", chunked("3;a=" + std::string(600, 'b')), 431},
      {"many extensions",
       [] {
         std::string chunks;
         for (int i = 0; i < 60; ++i) chunks += "1;abcdefghi\r\na\r\n";
         return chunked(chunks + "0\r\n\r\n");
       }(),
       431},
      {"fields behind the chunks", chunked("3\r\nabc\r\n0\r\nA: b\r\n\r\n"), 0},
      {"endless fields behind the chunks", chunked("0\r\nA: " + std::string(600, 'b') + "\r\n\r\n"),
       431},
      {"length behind the chunks", chunked("0\r\nContent-Length: 3\r\n\r\n"), 0},
      {"NUL behind the chunks", chunked("0\r\nA: \0\r\n\r\n"s), 400},
      {"head over the limit", get(host + "A: " + std::string(600, 'b') + "\r\n"), 431},
      {"endless first line", "GET /" + std::string(600, 'a'), 431},
      {"half a head", "GET / HTTP/1.1\r\nHost: a\r\n", -1},
      {"expectation", get(host + "Expect: 100-CONTINUE\r\n"), 0},
      {"unknown expectation", get(host + "Expect: a miracle\r\n"), 417},
  };
}

TEST(HttpParser, RefusesWhatCouldBeReadInTwoWays) {
  for (const Row& row : rows()) {
    for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, size_t{1} << 20}) {
      const Outcome outcome = parse(row.bytes, step);
      SCOPED_TRACE(fmt::format("{}, in pieces of {}", row.what, step));
      if (row.status > 0) {
        EXPECT_EQ(outcome.state, State::kBad);
        EXPECT_EQ(outcome.status, row.status);
      } else if (row.status == 0) {
        EXPECT_EQ(outcome.state, State::kWhole) << outcome.status;
        EXPECT_EQ(outcome.left, "");
      } else {
        EXPECT_TRUE(outcome.state == State::kHead || outcome.state == State::kBody);
      }
    }
  }
}

TEST(HttpParser, ReadsTheSameRequestInPiecesOfAnySize) {
  const std::string bytes =
      "POST /v1/a%20b?c=d?e HTTP/1.1\r\nHost: a\r\nX-One:  1 \r\nX-ONE: 2\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nLast: z\r\n\r\n";
  for (size_t step = 1; step <= bytes.size() + 4; ++step) {
    Outcome outcome = parse(bytes + "GET ", step);
    outcome.left.clear();
    ASSERT_EQ(outcome.state, State::kWhole) << step;
    EXPECT_EQ(outcome.request.method, "POST");
    EXPECT_EQ(outcome.request.path, "/v1/a%20b");
    EXPECT_EQ(outcome.request.query, "c=d?e");
    EXPECT_EQ(outcome.request.body, "abc0123456789");
    EXPECT_EQ(outcome.request.field("x-one"), "1");
    EXPECT_EQ(outcome.request.field("last"), "");  // it came behind the body
    EXPECT_EQ(outcome.request.fields.size(), 4u);
  }
}

// Bytes of a body may go to where they belong, in pieces of any size and between others.
TEST(HttpParser, ABodyThatIsReadInPlaceIsTheSame) {
  const HttpLimits limits;
  std::mt19937 random(3);
  std::string body(700'001, ' ');
  for (char& c : body) c = static_cast<char>(random());
  const std::string head =
      fmt::format("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.size());
  for (const size_t most : {size_t{1000}, size_t{100'000}, body.size()}) {
    HttpParser parser(limits);
    std::string input = head;
    EXPECT_EQ(parser.take(input), State::kBody);
    EXPECT_TRUE(parser.body_room().empty()) << "memory for a length that is only promised";
    size_t sent = 0;
    size_t in_place = 0;
    while (sent < body.size()) {
      const size_t most_now = sent < 40'000 ? 1000 : most;
      const size_t size = std::min<size_t>(1 + random() % most_now, body.size() - sent);
      const std::span<char> room = random() % 4 == 0 ? std::span<char>() : parser.body_room();
      EXPECT_LE(room.size(), sent) << "more than as much again as has come";
      if (room.empty()) {
        input.append(body, sent, size);
        sent += size;
      } else {
        const size_t taken = std::min(size, room.size());
        std::copy_n(body.data() + sent, taken, room.data());
        parser.filled(taken);
        sent += taken;
        in_place += taken;
      }
      ASSERT_EQ(parser.take(input), sent < body.size() ? State::kBody : State::kWhole);
      ASSERT_EQ(parser.body_bytes(), sent);
    }
    EXPECT_GT(in_place, 0u);
    EXPECT_TRUE(parser.body_room().empty());
    EXPECT_EQ(parser.take_request().body, body);
  }
}

TEST(HttpParser, NothingOfAChunkedBodyIsReadInPlace) {
  const HttpLimits limits;
  HttpParser parser(limits);
  const std::string chunk = "20000\r\n" + std::string(0x20000, 'x') + "\r\n";
  std::string input = chunked(chunk);
  EXPECT_EQ(parser.take(input), State::kBody);
  EXPECT_EQ(parser.body_bytes(), 0x20000u);
  EXPECT_TRUE(parser.body_room().empty());
}

TEST(HttpParser, LinesAtTheLimitDoNotDependOnThePieces) {
  for (size_t size = 490; size < 530; ++size) {
    const std::string extension = chunked("1;" + std::string(size, 'a') + "\r\nx\r\n0\r\n\r\n");
    const std::string zeros = chunked(std::string(size, '0') + "1\r\nx\r\n0\r\n\r\n");
    const std::string field = chunked("0\r\nA:" + std::string(size, 'a') + "\r\n\r\n");
    for (const std::string& bytes : {extension, zeros, field})
      EXPECT_EQ(parse(bytes, 1).state, parse(bytes, 10'000).state) << size;
  }
}

TEST(HttpParser, LeavesWhatBelongsToTheNextRequest) {
  const std::string next = "GET /2 HTTP/1.1\r\n";
  EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n" + next, 1000).left, next);
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
  EXPECT_EQ(parse(post + next, 1000).left, next);
  EXPECT_EQ(parse(post + next, 1000).request.body, "abc");
}

TEST(HttpParser, TakesTargetsWithAScheme) {
  const auto target = [](std::string_view text) {
    const Outcome outcome = parse(fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", text), 1000);
    return outcome.request.path + "|" + outcome.request.query;
  };
  EXPECT_EQ(target("http://a:80/b/c?d"), "/b/c|d");
  EXPECT_EQ(target("HTTPS://a"), "/|");
  EXPECT_EQ(target("http://a?b=/c"), "/|b=/c");
  EXPECT_EQ(target("//a/b"), "//a/b|");
}

TEST(HttpParser, TellsHowTheConnectionGoesOn) {
  const auto keeps = [](std::string_view version, std::string_view fields) {
    const HttpLimits limits;
    HttpParser parser(limits);
    std::string input = fmt::format("GET / HTTP/{}\r\nHost: a\r\n{}\r\n", version, fields);
    EXPECT_EQ(parser.take(input), State::kWhole);
    EXPECT_EQ(parser.is_http_1_0(), version == "1.0");
    return parser.keep_alive();
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_FALSE(keeps("1.1", "Connection: a, CLOSE\r\n"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "Connection: keep-alive\r\n"));
}

// Whatever comes: no crash, nothing read past its end (sanitizers look), and a status below 500.
TEST(HttpParser, SurvivesDamagedRequests) {
  std::mt19937 random(7);
  const std::vector<Row> seeds = rows();
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = seeds[random() % seeds.size()].bytes;
    for (unsigned change = random() % 4; change > 0 && !bytes.empty(); --change) {
      const size_t place = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[place] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(place, random() % 8);
          break;
        case 2:
          bytes.insert(place, 1, "\r\n:; \0,0"[random() % 8]);
          break;
        default:
          bytes.insert(place, bytes.substr(random() % bytes.size(), random() % 16));
      }
    }
    const Outcome outcome = parse(bytes, 1 + random() % 40);
    const Outcome at_once = parse(bytes, bytes.size() + 1);
    EXPECT_EQ(outcome.state, at_once.state) << testing::PrintToString(bytes);
    EXPECT_EQ(outcome.request.body, at_once.request.body);
    if (outcome.state == State::kBad) {
      EXPECT_GE(outcome.status, 400);
      EXPECT_LT(outcome.status, 500);
    }
  }
}

}  // namespace
}  // namespace fovea::serve
