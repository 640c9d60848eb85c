// SPDX-License-Identifier: Apache-2.0
#include "serve/pictures/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace fovea::serve {
namespace {

struct Range {
  const char* prefix;
  int bits;
};

// What IANA's registries of special addresses list as not global, and what clouds keep behind
// addresses that are.
constexpr Range kNotPublic[] = {
    {"0.0.0.0", 8},         // this network; 0.0.0.0 itself reaches this machine
    {"10.0.0.0", 8},        // private
    {"100.64.0.0", 10},     // behind a carrier's NAT; a cloud's metadata too
    {"127.0.0.0", 8},       // loopback
    {"168.63.129.16", 32},  // Azure's own services for its machines
    {"169.254.0.0", 16},    // link-local; most clouds' metadata
    {"172.16.0.0", 12},     // private
    {"192.0.0.0", 24},      // protocols; a cloud's metadata too
    {"192.0.2.0", 24},      // documentation
    {"192.88.99.0", 24},    // relays of 6to4
    {"192.168.0.0", 16},    // private
    {"198.18.0.0", 15},     // benchmarks
    {"198.51.100.0", 24},   // documentation
    {"203.0.113.0", 24},    // documentation
    {"224.0.0.0", 4},       // multicast
    {"240.0.0.0", 4},       // reserved; broadcast
    // Only 2000::/3 is given out. The rest holds ::, ::1, IPv4 as ::a.b.c.d and ::ffff:a.b.c.d,
    // NAT64 (64:ff9b::), unique local fc00::/7, link-local fe80::/10 and multicast ff00::/8.
    {"::", 3},
    {"4000::", 2},
    {"8000::", 1},
    {"2001::", 23},      // protocols: Teredo, which wraps IPv4, benchmarks, ORCHID
    {"2001:db8::", 32},  // documentation
    {"2002::", 16},      // 6to4, which wraps IPv4
    {"3ffe::", 16},      // given back
    {"3fff::", 20},      // documentation
};

constexpr Range kLoopback[] = {{"127.0.0.0", 8}, {"::1", 128}};

bool is_in(const Address& address, const Range& range) {
  const std::optional<Address> prefix = parse_address(range.prefix);
  if (!prefix || prefix->family != address.family) return false;
  const int whole = range.bits / 8;
  if (!std::equal(prefix->bytes.begin(), prefix->bytes.begin() + whole, address.bytes.begin()))
    return false;
  const int rest = range.bits % 8;
  return rest == 0 || (prefix->bytes[whole] ^ address.bytes[whole]) >> (8 - rest) == 0;
}

}  // namespace

std::optional<Address> parse_address(const std::string& text) {
  for (const int family : {AF_INET, AF_INET6}) {
    Address address{.family = family};
    if (inet_pton(family, text.c_str(), address.bytes.data()) == 1) return address;
  }
  return std::nullopt;
}

std::string text_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (inet_ntop(address.family, address.bytes.data(), text, sizeof text) == nullptr) return "";
  return text;
}

std::optional<Address> address_of(const sockaddr* from, size_t bytes) {
  if (from == nullptr || bytes < sizeof(sa_family_t)) return std::nullopt;
  Address address{.family = from->sa_family};
  if (address.family == AF_INET && bytes >= sizeof(sockaddr_in)) {
    sockaddr_in v4{};
    std::memcpy(&v4, from, sizeof v4);
    std::memcpy(address.bytes.data(), &v4.sin_addr, sizeof v4.sin_addr);
    return address;
  }
  if (address.family == AF_INET6 && bytes >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, from, sizeof v6);
    std::memcpy(address.bytes.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    return address;
  }
  return std::nullopt;
}

bool is_public(const Address& address) {
  if (address.family != AF_INET && address.family != AF_INET6) return false;
  return std::none_of(std::begin(kNotPublic), std::end(kNotPublic),
                      [&](const Range& range) { return is_in(address, range); });
}

bool is_loopback(const Address& address) {
  return std::any_of(std::begin(kLoopback), std::end(kLoopback),
                     [&](const Range& range) { return is_in(address, range); });
}

}  // namespace fovea::serve
