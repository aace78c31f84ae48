// The network interfaces of a host, as a rank reports them.
#pragma once

#include <string>
#include <vector>

namespace shardproof::world {

/// The names of the first eight interfaces that are up, without loopback, in the kernel's order. Empty: no such
/// interface exists, or the kernel lists none.
std::vector<std::string> network_interfaces();

}  // namespace shardproof::world
