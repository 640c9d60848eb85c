// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/addresses.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

namespace fovea::serve {
namespace {

Address parsed(const std::string& text) {
  const auto address = parse_address(text);
  EXPECT_TRUE(address) << text;
  return address.value_or(Address{});
}

// The first and the last address of each range, and their neighbours outside of it.
TEST(Addresses, RangesThatAreNotPublicEndWhereTheyShould) {
  struct {
    const char* before;
    const char* first;
    const char* last;
    const char* after;
  } const ranges[] = {
      {nullptr, "0.0.0.0", "0.255.255.255", "1.0.0.0"},
      {"9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"},
      {"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"},
      {"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"},
      {"168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"},
      {"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"},
      {"172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"},
      {"191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"},
      {"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"},
      {"192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"},
      {"192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"},
      {"198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"},
      {"198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"},
      {"203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"},
      {"223.255.255.255", "224.0.0.0", "255.255.255.255", nullptr},
      {nullptr, "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"},
      {"2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
       "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"},
      {"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
       "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"},
      {"2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
       "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"},
      {"3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
       "3ffe::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"},
      {"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
       "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", nullptr},
  };
  for (const auto& range : ranges) {
    for (const char* inside : {range.first, range.last})
      EXPECT_FALSE(is_public(parsed(inside))) << inside;
    for (const char* outside : {range.before, range.after}) {
      if (outside == nullptr) continue;  // there is none, or it is in the range beside
      EXPECT_TRUE(is_public(parsed(outside))) << outside;
    }
  }
}

TEST(Addresses, KnownPlacesAreToldApart) {
  for (const char* text : {"8.8.8.8", "1.1.1.1", "93.184.215.14", "2606:4700:4700::1111",
                           "2001:4860:4860::8888", "2a00:1450:4001:82a::200e"})
    EXPECT_TRUE(is_public(parsed(text))) << text;
  for (const char* text : {"127.0.0.1",
                           "0.0.0.0",
                           "169.254.169.254",
                           "192.0.0.192",
                           "100.100.100.200",
                           "::1",
                           "::",
                           "::127.0.0.1",
                           "::ffff:127.0.0.1",
                           "::ffff:8.8.8.8",
                           "64:ff9b::7f00:1",
                           "64:ff9b:1::a00:1",
                           "2002:7f00:1::",
                           "2001:0:7f00:1::",
                           "100::1",
                           "5f00::1",
                           "fc00::1",
                           "fd00:ec2::254",
                           "fe80::1",
                           "fec0::1",
                           "ff02::1"})
    EXPECT_FALSE(is_public(parsed(text))) << text;
}

TEST(Addresses, LoopbackIsOfThisMachine) {
  for (const char* text : {"127.0.0.1", "127.0.0.2", "127.255.255.255", "::1"})
    EXPECT_TRUE(is_loopback(parsed(text))) << text;
  for (const char* text :
       {"126.255.255.255", "128.0.0.0", "0.0.0.0", "::", "::2", "::ffff:127.0.0.1", "10.0.0.1"})
    EXPECT_FALSE(is_loopback(parsed(text))) << text;
}

TEST(Addresses, OnlyThePlainFormIsRead) {
  for (const char* text : {"", "127.1", "2130706433", "0177.0.0.1", "0x7f.0.0.1", "127.0.0.1.",
                           "[::1]", "::1%lo", "localhost", " 127.0.0.1", "1.2.3.256"})
    EXPECT_FALSE(parse_address(text)) << text;
  for (const char* text : {"127.0.0.1", "::1", "2001:db8::7:0:1"})
    EXPECT_EQ(text_of(parsed(text)), text);
}

TEST(Addresses, SocketAddressesAreRead) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* plain = reinterpret_cast<const sockaddr*>(&v4);
  EXPECT_EQ(address_of(plain, sizeof v4), parse_address("127.0.0.1"));
  EXPECT_FALSE(address_of(plain, sizeof v4 - 1));
  EXPECT_FALSE(address_of(nullptr, 0));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  const auto* wide = reinterpret_cast<const sockaddr*>(&v6);
  EXPECT_EQ(address_of(wide, sizeof v6), parse_address("::1"));
  EXPECT_FALSE(address_of(wide, sizeof v4));
  v6.sin6_family = AF_UNIX;
  EXPECT_FALSE(address_of(wide, sizeof v6));
  EXPECT_FALSE(is_public(Address{.family = AF_UNIX}));
}

}  // namespace
}  // namespace fovea::serve
