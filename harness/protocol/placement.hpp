// Placement says on which host each rank of a world is. Ranks learn it when they meet, and reports read it from the
// streams of ranks. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

/// A host of a world, and the ranks on it.
struct PlacedHost {
  std::string name;  ///< For people: the node's name in Slurm, or else the host name.
  std::string id;    ///< Differs between hosts, also where their names are equal.
  std::vector<int> ranks;  ///< Ascending. A rank's local rank is its place in this list.
  friend bool operator==(const PlacedHost&, const PlacedHost&) = default;
};

/// Hosts with equally many ranks, which are numbered host by host.
struct HostGrid {
  int hosts = 1;
  int ranks_per_host = 1;
  friend bool operator==(const HostGrid&, const HostGrid&) = default;
};

class Placement {
 public:
  Placement() = default;
  /// Throws std::invalid_argument, which names the rank or the host, unless
  /// - each host has ranks, in ascending order, and its own id,
  /// - no rank is on two hosts,
  /// - hosts are in the order of their first ranks.
  explicit Placement(std::vector<PlacedHost> hosts);

  /// Adds a rank that is greater than all ranks so far. Returns the index of its host, which may be new.
  std::size_t add(int rank, std::string_view name, std::string_view id);

  /// In the order of their first ranks.
  const std::vector<PlacedHost>& hosts() const { return hosts_; }
  /// nullptr: it is not known where the rank is.
  const PlacedHost* find(int rank) const;
  /// Throws std::out_of_range for a rank whose host is not known.
  const PlacedHost& host_of(int rank) const;
  int local_rank(int rank) const;
  /// `ranks 0, 1 on n1, ranks 2, 3 on n2`, or `ranks 0, 1 on n1, ranks 2, 3 on n2, ranks 4, 5 on n3, 5 more hosts`.
  std::string text() const;
  /// `n1 and n2`, or `n1, n2, n3 and 5 more`.
  std::string names() const;

  /// Throws std::invalid_argument if the hosts have different numbers of ranks, or are not numbered host by host. The
  /// text says which ranks are where.
  HostGrid grid() const;

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  std::vector<PlacedHost> hosts_;
};

}  // namespace shardproof
