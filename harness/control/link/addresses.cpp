#include "harness/control/link/addresses.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace shardproof::control::link {

namespace {

template <class Socket>
Address address_of(const Socket& socket) {
  Address address;
  std::memcpy(&address.bytes, &socket, sizeof socket);
  address.length = sizeof socket;
  return address;
}

Address parse_address(std::string_view text) {
  const auto refuse = [&] {
    throw std::invalid_argument(
        fmt::format("\"{}\" is not an address of a hub: expected 10.0.0.1:4000 or [fd00::1]:4000", text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse();
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) refuse();
  std::string host(text.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    host = host.substr(1, host.size() - 2);
    if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1) refuse();
    return address_of(six);
  }
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) != 1) refuse();
  return address_of(four);
}

}  // namespace

std::string to_string(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.bytes.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address.bytes, sizeof six);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(six.sin6_port));
  }
  sockaddr_in four{};
  std::memcpy(&four, &address.bytes, sizeof four);
  ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), ntohs(four.sin_port));
}

std::string host_of(const sockaddr_storage& address) {
  std::string bytes;
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address, sizeof six);
    bytes.assign(reinterpret_cast<const char*>(&six.sin6_addr), sizeof six.sin6_addr);
  } else {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    bytes.assign(reinterpret_cast<const char*>(&four.sin_addr), sizeof four.sin_addr);
  }
  return bytes;
}

std::string addresses_of_host(std::uint16_t port) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) throw std::system_error(errno, std::generic_category(), "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype([](ifaddrs* list) { ::freeifaddrs(list); })> list(first);
  std::string outer, loopback;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    std::string& text = (each->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : outer;
    if (each->ifa_addr->sa_family == AF_INET) {
      sockaddr_in four{};
      std::memcpy(&four, each->ifa_addr, sizeof four);
      four.sin_port = htons(port);
      text += to_string(address_of(four)) + ' ';
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 six{};
      std::memcpy(&six, each->ifa_addr, sizeof six);
      // Such an address means nothing without the name of an interface of the other host.
      if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr)) continue;
      six.sin6_port = htons(port);
      text += to_string(address_of(six)) + ' ';
    }
  }
  outer += loopback;
  if (!outer.empty()) outer.pop_back();
  return outer;
}

std::vector<Address> parse_addresses(std::string_view text) {
  std::vector<Address> addresses;
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    if (blank > 0) addresses.push_back(parse_address(text.substr(0, blank)));
    text.remove_prefix(std::min(blank + 1, text.size()));
  }
  if (addresses.empty()) throw std::invalid_argument("the hub has no address: is a network interface up on its host?");
  return addresses;
}

}  // namespace shardproof::control::link
