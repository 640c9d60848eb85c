// SPDX-License-Identifier: Apache-2.0
// Which hosts and addresses are contacted.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "serve/pictures/fetch.h"
#include "serve/pictures/test_loopback_host.h"

namespace fovea::serve {
namespace {

using namespace loopback;  // NOLINT: the helpers of these tests alone

// Every way to write a place that is not the host that is allowed. None is looked up.
TEST(FetchHosts, OtherHostsAreRefusedHoweverTheyAreWritten) {
  const std::string wide = "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1";  // digits of full width
  const PictureLimits limits{.hosts = {"pictures.example", "other.example:8443", wide},
                             .allow_private = true};
  const std::string zero("http://pictures.example\0.evil.example/", 38);
  for (const std::string url :
       {"http://127.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://127.0.0.1./",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[fe80::1%25lo]/",
        "http://169.254.169.254/latest/",
        "http://localhost/",
        "http://metadata.google.internal/",
        "http://pictures.example.evil.org/",
        "http://evilpictures.example/",
        "http://a.pictures.example/",
        "http://pictures/",
        "http://pictures.example../",
        "http://pictures.example:8080/",
        "http://pictures.example:443/",
        "https://pictures.example:80/",
        "http://other.example/",
        "https://other.example/",
        "http://pictures.example:0/",
        "http://pictures.example:65616/",
        "http://pictures.example:x/",
        "http://pictures.example:-80/",
        "http://pictures.example@127.0.0.1/",
        "http://pictures.example:80@127.0.0.1/",
        "http://pictures.example\\@127.0.0.1/",
        "http://127.0.0.1\\@pictures.example/",
        "http://127.0.0.1#@pictures.example/",
        "http://127.0.0.1?@pictures.example/",
        "http://127.0.0.1/@pictures.example/",
        "http://127.0.0.1%23@pictures.example/",
        "http://127.0.0.1;@pictures.example/",
        "http://user@pictures.example/",
        "http://user:word@pictures.example/",
        "http://@pictures.example/",
        "http://a@pictures.example@127.0.0.1/",
        "http://pictures.example%00.evil.example/",
        "http://pictures.example%2f.evil.example/",
        "http://pictures.example%40127.0.0.1/",
        "http://pictures.example,evil.example/",
        "http://pictures.example evil.example/",
        "http://pictures.example\tevil/",
        "http://pictures.example\r\nHost: evil/",
        "http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1/",  // digits of full width
        "http://\xef\xbd\x90ictures.example/",                 // a letter of full width
        "http://p\xd1\x96"
        "ctures.example/",  // a letter that looks like i
        "http://pictures\xe3\x80\x82"
        "example/",  // a full stop of CJK
        "http://%70%EF%BD%89ctures.example/",
        "http://",
        "http:///",
        "http:",
        "https://?",
        "http://[pictures.example]/",
        "http://[::1/",
        "http://[]/",
        "ftp://pictures.example/",
        "file:///etc/passwd",
        "gopher://pictures.example/",
        "pictures.example/a.png",
        ""}) {
    const ApiError error = refused(url, limits, never());
    EXPECT_EQ(error.status, 400) << url << ": " << error.message;
  }
  EXPECT_EQ(refused(zero, limits, never()).status, 400);
  EXPECT_EQ(refused("http://127.0.0.1/", limits, never()).code, "picture_host_not_allowed");
  const ApiError none = refused("https://pictures.example/", {.allow_private = true}, never());
  EXPECT_EQ(none.code, "picture_host_not_allowed");
  EXPECT_NE(none.message.find("not fetched from this host"), std::string::npos);
}

TEST(FetchHosts, AnAllowedHostMayBeWrittenInSeveralWays) {
  Host host(answer(png()));
  const std::string port = ":" + std::to_string(host.port());
  struct {
    std::string entry;
    std::string url;
  } const rows[] = {
      {"pictures.example" + port, "http://pictures.example" + port + "/"},
      {"Pictures.Example." + port, "http://pictures.example" + port + "/"},
      {"pictures.example" + port, "HTTP://PICTURES.example." + port + "/x?y=z#@127.0.0.3"},
      {"pictures.example" + port, "http://p%69ctures.example" + port},
      {"127.0.0.1" + port, "http://2130706433" + port + "/"},
  };
  for (const auto& row : rows) {
    const auto bytes =
        fetch_picture(row.url, limits_for(row.entry), kParam, [](const std::string& name) {
          EXPECT_TRUE(name == "pictures.example" || name == "127.0.0.1") << name;
          return always({"127.0.0.1"})(name);
        });
    EXPECT_TRUE(std::holds_alternative<Bytes>(bytes))
        << row.url << ": " << std::get<ApiError>(bytes).message;
    const std::string named = row.entry.starts_with("127") ? "127.0.0.1" : "pictures.example";
    EXPECT_NE(host.request().find("Host: " + named + port + "\r\n"), std::string::npos);
  }
  // Without a port, that of http or https: these are allowed, and then their name is not known.
  const Resolver nowhere = [](const std::string&) { return std::vector<Address>(); };
  for (const char* url : {"http://pictures.example/", "https://pictures.example/",
                          "http://pictures.example:80/", "https://pictures.example:443/"})
    expect_unfetched(refused(url, limits_for("pictures.example"), nowhere), "name is not known");
  for (const char* entry : {"[2001:db8::1]", "2001:DB8:0::1", "[2001:db8::1]:80"})
    expect_unfetched(refused("http://[2001:db8::0:1]/", limits_for(entry), nowhere), "not known");
}

TEST(FetchHosts, AllowedHostsAtPrivateAddressesAreNotContacted) {
  PictureLimits limits = limits_for("pictures.example");
  for (const bool loopback : {true, false}) {
    limits.allow_private = loopback;
    for (const char* address :
         {"0.0.0.0", "10.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1",
          "198.18.0.1", "224.0.0.1", "255.255.255.255", "::", "::ffff:127.0.0.1", "::127.0.0.1",
          "64:ff9b::7f00:1", "2002:7f00:1::", "fc00::1", "fe80::1", "ff02::1"}) {
      expect_unfetched(refused("http://pictures.example/", limits, always({address})),
                       "not at a public address");
      // One among others is enough.
      expect_unfetched(refused("http://pictures.example/", limits,
                               always({"93.184.215.14", "2606:4700::1111", address})),
                       "not at a public address");
    }
  }
  expect_unfetched(refused("http://pictures.example/", limits, always({"127.0.0.1"})),
                   "not at a public address");
}

TEST(FetchHosts, AllowedAddressesThatArePrivateAreNotContacted) {
  Host host(answer(png()));
  const std::string port = ":" + std::to_string(host.port());
  for (const std::string name : {"127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.1", "0", "0.0.0.0",
                                 "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
                                 "[64:ff9b::7f00:1]", "169.254.169.254", "localhost"}) {
    const PictureLimits limits{.hosts = {"127.0.0.1" + port, "0.0.0.0" + port, "[::1]" + port,
                                         "[::]" + port, "[::ffff:127.0.0.1]" + port,
                                         "[64:ff9b::7f00:1]" + port, "169.254.169.254" + port,
                                         "localhost" + port}};
    expect_unfetched(refused("http://" + name + port + "/", limits), "not at a public address");
  }
  EXPECT_EQ(host.connections(), 0);
}

// A name that is looked up again may lead elsewhere by then.
TEST(FetchHosts, ANameIsLookedUpOnceAndOnlyItsAnswerIsContacted) {
  const Act act = [](const Talk& talk) { talk.send(answer(png())); };
  std::unique_ptr<Host> checked;
  std::unique_ptr<Host> other;
  for (int i = 0; i < 20 && !(other && other->listens()); ++i) {
    checked = std::make_unique<Host>(act);
    other = std::make_unique<Host>(act, "127.0.0.2", static_cast<uint16_t>(checked->port()));
  }
  ASSERT_TRUE(other->listens());
  std::atomic<int> asked{0};
  const Resolver rebind = [&](const std::string&) {
    return ++asked == 1 ? always({"127.0.0.1"})("") : always({"127.0.0.2"})("");
  };
  const std::string name = checked->name("rebind.example");
  const auto bytes =
      fetch_picture(checked->url("rebind.example"), limits_for(name), kParam, rebind);
  EXPECT_TRUE(std::holds_alternative<Bytes>(bytes));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(checked->connections(), 1);
  EXPECT_EQ(other->connections(), 0);
}

TEST(FetchHosts, AnotherAddressOfTheHostIsTried) {
  Host host(answer(png()));
  const auto bytes = fetch_picture(host.url("two.example"), limits_for(host.name("two.example")),
                                   kParam, always({"127.0.0.3", "::1", "127.0.0.1"}));
  ASSERT_TRUE(std::holds_alternative<Bytes>(bytes)) << std::get<ApiError>(bytes).message;
}

// Even where libcurl goes its own way, no socket is opened to what was not checked.
TEST(FetchHosts, NoSocketIsOpenedToAnAddressThatWasNotFound) {
  Host host(answer(png()));
  const std::string name = host.name("[::1]");
  expect_unfetched(refused("http://" + name + "/", limits_for(name), always({"127.0.0.1"})),
                   "not at a public address");
  EXPECT_EQ(host.connections(), 0);
}

TEST(FetchHosts, LookupsThatHangAreGivenUpAndDoNotPileUp) {
  constexpr int kMost = 64;  // of fetch.cc
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  const Resolver hang = [released, asked](const std::string&) {
    ++*asked;
    released.wait();
    return std::vector<Address>();
  };
  PictureLimits limits = limits_for("pictures.example");
  limits.fetch_ms = 10;
  const auto start = Clock::now();
  for (int i = 0; i < kMost + 8; ++i)
    expect_unfetched(refused("http://pictures.example/", limits, hang), "took longer than 10 ms");
  EXPECT_LT(Clock::now() - start, kSoon);
  release.set_value();
  EXPECT_LE(*asked, kMost);

  // Once they have ended there is room again.
  Host host(answer(png()));
  bool fetched = false;
  while (!fetched && Clock::now() - start < kSoon) {
    fetched =
        std::holds_alternative<Bytes>(fetch_picture(host.url(), limits_for(host.name()), kParam));
    if (!fetched) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(fetched);
}

}  // namespace
}  // namespace fovea::serve
