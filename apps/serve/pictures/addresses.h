// SPDX-License-Identifier: Apache-2.0
// Addresses of hosts, and which of them are of the public internet.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fovea::serve {

// An address of IPv4 or IPv6, without a port.
struct Address {
  int family = AF_INET;             // or AF_INET6
  std::array<uint8_t, 16> bytes{};  // as the network has them; IPv4 has the first 4

  friend bool operator==(const Address&, const Address&) = default;
};

// "192.0.2.1" or "2001:db8::1"; nothing for any other way to write one.
std::optional<Address> parse_address(const std::string& text);
std::string text_of(const Address& address);

// Nothing where it is neither IPv4 nor IPv6.
std::optional<Address> address_of(const sockaddr* from, size_t bytes);

// Whether packets to it leave for the internet: not to this machine, its network, or one that an
// address of IPv6 wraps.
bool is_public(const Address& address);
bool is_loopback(const Address& address);

}  // namespace fovea::serve
