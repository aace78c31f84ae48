// The addresses by which other hosts reach a hub, or a rank of the fabric `tcp`, as a text for the store.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::control::link {

struct Address {
  sockaddr_storage bytes{};
  socklen_t length = 0;
};

/// `10.0.0.1:4000 [fd00::1]:4000 127.0.0.1:4000`: one address for each interface of this host that is up, those of
/// loopback last. Throws std::system_error.
std::string addresses_of_host(std::uint16_t port);

/// Throws std::invalid_argument. The text names the part that is not valid.
std::vector<Address> parse_addresses(std::string_view text);

std::string to_string(const Address& address);

/// The bytes of the address without the port, to compare hosts by.
std::string host_of(const sockaddr_storage& address);

}  // namespace shardproof::control::link
