// SPDX-License-Identifier: Apache-2.0
// What a host answers, and how fast.
#include "serve/pictures/fetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "fovea/fovea.h"
#include "serve/pictures/test_loopback_host.h"

namespace fovea::serve {
namespace {

using namespace loopback;  // NOLINT: the helpers of these tests alone

TEST(Fetch, APictureComesAsItIs) {
  Host host(answer(png()));
  const auto bytes = fetch_picture(host.url(), limits_for(host.name()), kParam);
  ASSERT_TRUE(std::holds_alternative<Bytes>(bytes)) << std::get<ApiError>(bytes).message;
  EXPECT_EQ(std::string(std::get<Bytes>(bytes).begin(), std::get<Bytes>(bytes).end()), png());

  const std::string request = host.request();
  EXPECT_TRUE(request.starts_with("GET /a.png HTTP/1.1\r\nHost: " + host.name() + "\r\n"));
  for (const char* field : {"Accept-Encoding", "Cookie", "Authorization", "TE:", "Upgrade"})
    EXPECT_EQ(request.find(field), std::string::npos) << request;

  const auto image =
      load_picture(host.url("localhost"), limits_for(host.name("localhost")), kParam);
  ASSERT_TRUE(std::holds_alternative<Image>(image)) << std::get<ApiError>(image).message;
  EXPECT_EQ(std::get<Image>(image).rgb,
            load_image(source_dir() + "/tests/fixtures/images/rgb-8.png")->rgb);
}

TEST(Fetch, ChunksAndAnAnswerThatEndsWithItsConnectionComeToo) {
  const std::string picture = png();
  char size[16];
  std::snprintf(size, sizeof size, "%zx", picture.size());
  for (const std::string& text :
       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(size) + "\r\n" +
            picture + "\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Encoding: identity\r\n\r\n" + picture,
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer(picture)}) {
    Host host(text);
    const auto bytes = fetch_picture(host.url(), limits_for(host.name()), kParam);
    ASSERT_TRUE(std::holds_alternative<Bytes>(bytes)) << std::get<ApiError>(bytes).message;
    EXPECT_EQ(std::get<Bytes>(bytes).size(), picture.size());
  }
}

TEST(Fetch, BadAnswersAreSaidToBeSo) {
  const std::string picture = png();
  const std::string half = picture.substr(0, picture.size() / 2);
  struct {
    const char* name;
    std::string text;
    const char* words;
  } const rows[] = {
      {"404", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", "the host answered 404"},
      {"404, large", "HTTP/1.1 404 Not Found\r\nContent-Length: 99999999999\r\n\r\nx",
       "the host answered 404"},
      {"500 alone", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "the host answered 500"},
      {"204", "HTTP/1.1 204 No Content\r\n\r\n", "the host answered 204"},
      {"206", "HTTP/1.1 206 Part\r\nContent-Length: 3\r\n\r\nabc", "the host answered 206"},
      {"401", "HTTP/1.1 401 No\r\nWWW-Authenticate: Negotiate\r\nContent-Length: 0\r\n\r\n",
       "the host answered 401"},
      {"too large by its length", "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\nx",
       "more than 1048576 bytes"},
      {"too large in chunks",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n" +
           std::string(0x100001, 'x') + "\r\n0\r\n\r\n",
       "more than 1048576 bytes"},
      {"shorter than its length",
       "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(picture.size()) + "\r\n\r\n" + half,
       "answer is not whole"},
      {"an unfinished chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
       "answer is not whole"},
      {"a chunk that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nabc",
       "answer is not whole"},
      {"a length that is none", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc",
       "cannot be read"},
      {"gzip", answer(picture, "Content-Encoding: gzip\r\n"), "compressed"},
      {"capitals", answer(picture, "CONTENT-ENCODING:BR\r\n"), "compressed"},
      {"a gzip transfer",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
       "compressed"},
      {"many fields", answer(picture, std::string(70'000, 'a').replace(1, 1, ":") + "\r\n"),
       "more than 65536 bytes"},
      {"nothing", "", "answer is not whole"},
      {"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "cannot be read"},
      {"HTTP/0.9", picture, "cannot be read"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    Host host(row.text);
    expect_unfetched(refused(host.url(), limits_for(host.name())), row.words);
    EXPECT_EQ(host.connections(), 1);
  }
}

TEST(Fetch, MoreThanItsLengthIsCutAndThenNoPicture) {
  const std::string picture = png();
  Host host("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + picture);
  const auto image = load_picture(host.url(), limits_for(host.name()), kParam);
  ASSERT_TRUE(std::holds_alternative<ApiError>(image));
  EXPECT_EQ(std::get<ApiError>(image).status, 400);
  EXPECT_EQ(std::get<ApiError>(image).code, "invalid_picture");
}

TEST(Fetch, RedirectsAreNotFollowed) {
  Host secret(answer(png()));
  for (const int status : {301, 302, 303, 307, 308}) {
    Host host("HTTP/1.1 " + std::to_string(status) + " Elsewhere\r\nLocation: " + secret.url() +
              "\r\nContent-Length: 0\r\n\r\n");
    PictureLimits limits = limits_for(host.name());
    limits.hosts.push_back(secret.name());
    expect_unfetched(refused(host.url(), limits),
                     "the host answered " + std::to_string(status) + "; redirects");
  }
  EXPECT_EQ(secret.connections(), 0);
}

TEST(Fetch, AnEndlessBodyEndsAtTheLimit) {
  Host host([](const Talk& talk) {
    const std::string part(65536, 'x');
    talk.send("HTTP/1.1 200 OK\r\n\r\n");
    while (talk.send(part)) {
    }
  });
  expect_unfetched(refused(host.url(), limits_for(host.name())), "more than 1048576 bytes");
}

TEST(Fetch, EndlessFieldsEndAtTheLimit) {
  for (const char* piece : {"X-More: of it\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n"}) {
    Host host([piece](const Talk& talk) {
      if (std::string(piece).starts_with("X")) talk.send("HTTP/1.1 200 OK\r\n");
      while (talk.send(piece)) {
      }
    });
    expect_unfetched(refused(host.url(), limits_for(host.name())), "more than 65536 bytes");
  }
}

TEST(Fetch, SlowHostsAreGivenUp) {
  const Act acts[] = {
      [](const Talk& talk) { talk.wait(60'000); },  // silence
      [](const Talk& talk) {
        talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        while (talk.send("x") && talk.wait(20)) {
        }
      },
      [](const Talk& talk) {
        talk.send("HTTP/1.1 200 OK\r\nX-Slow: ");
        while (talk.send("x") && talk.wait(20)) {
        }
      },
  };
  for (const Act& act : acts) {
    Host host(act);
    PictureLimits limits = limits_for(host.name());
    limits.fetch_ms = 200;
    const auto start = Clock::now();
    expect_unfetched(refused(host.url(), limits), "took longer than 200 ms");
    EXPECT_LT(Clock::now() - start, kSoon);
  }
}

TEST(Fetch, AHostThatDoesNotListenOrSpeakTls) {
  int port = 0;
  {
    Host gone("");
    port = gone.port();
  }
  const std::string name = "127.0.0.1:" + std::to_string(port);
  expect_unfetched(refused("http://" + name + "/", limits_for(name)), "takes no connection");
  Host host(answer(png()));
  expect_unfetched(refused("https://" + host.name() + "/", limits_for(host.name())),
                   "no secure connection");
}

TEST(Fetch, ProxiesOfTheEnvironmentAreNotAsked) {
  Host proxy(answer("from the proxy"));
  Host host(answer(png()));
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"})
    setenv(name, ("http://" + proxy.name()).c_str(), 1);
  const auto bytes = fetch_picture(host.url(), limits_for(host.name()), kParam);
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) unsetenv(name);
  EXPECT_TRUE(std::holds_alternative<Bytes>(bytes));
  EXPECT_EQ(proxy.connections(), 0);
  EXPECT_EQ(host.connections(), 1);
}

TEST(Fetch, ManyThreadsFetchAtOnce) {
  Host host(answer(png()));
  std::atomic<int> fetched{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 5; ++k)
        if (std::holds_alternative<Bytes>(
                fetch_picture(host.url(), limits_for(host.name()), kParam)))
          ++fetched;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fetched, 40);
}

}  // namespace
}  // namespace fovea::serve
