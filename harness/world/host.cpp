#include "harness/world/host.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "harness/protocol/environment.hpp"

namespace shardproof::world {

namespace {

std::vector<std::string> network_interfaces() {
  constexpr std::size_t most = 8;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  std::vector<std::string> names;
  // The list has an entry for each address of an interface.
  for (const ifaddrs* entry = list.get(); entry != nullptr && names.size() < most; entry = entry->ifa_next) {
    const bool reaches_others = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (reaches_others && std::ranges::find(names, entry->ifa_name) == names.end()) names.emplace_back(entry->ifa_name);
  }
  return names;
}

}  // namespace

Host this_host() {
  return {.identity = protocol::host_identity(protocol::own_variable), .interfaces = network_interfaces()};
}

}  // namespace shardproof::world
