// The host of a rank, as the rank's stream and its peers see it.
#pragma once

#include <string>
#include <vector>

#include "harness/protocol/host_identity.hpp"

namespace shardproof::world {

struct Host {
  protocol::HostIdentity identity;
  /// The names of the first eight network interfaces that are up, without loopback, in the kernel's order. Empty: no
  /// such interface exists, or the kernel lists none.
  std::vector<std::string> interfaces;
};

/// Reads files of the kernel. All processes of a host get the same.
Host this_host();

}  // namespace shardproof::world
