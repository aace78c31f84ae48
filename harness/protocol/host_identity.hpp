// HostIdentity says which host a process is on. Two processes are on one host when they can share memory, and when
// their scheduler counts their nodes as one. So two nodes that Slurm runs on one machine, and two containers with
// separate /dev/shm, are two hosts.
#pragma once

#include <functional>
#include <string>

namespace shardproof::protocol {

struct HostIdentity {
  std::string name;  ///< For people: the node's name in Slurm, or else the host name.
  std::string boot;  ///< The kernel's boot id, which differs between machines with equal names. Empty: unknown.
  std::string memory;  ///< The device number of /dev/shm, which differs between containers. Empty: unknown.
  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

/// The host of this process. `get` maps the name of an environment variable to its value or nullptr.
HostIdentity host_identity(const std::function<const char*(const char*)>& get);

/// The identity as one word without blanks: equal words are one host. For files, messages and comparisons.
std::string word_of(const HostIdentity& host);

}  // namespace shardproof::protocol
