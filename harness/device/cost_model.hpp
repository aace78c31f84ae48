// The cost model of a scenario: how long work and collectives take. The time is virtual on every device; a GPU also
// spins for it. It is data of a scenario, and its functions are pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "harness/protocol/trace.hpp"

namespace shardproof {

/// The time of one kind of collective: `fixed`, plus `per_kib` for each begun KiB of the larger of its input and
/// output.
struct CollectiveCost {
  Nanoseconds fixed = 0;
  Nanoseconds per_kib = 0;
  friend bool operator==(const CollectiveCost&, const CollectiveCost&) = default;
};

struct CostModel {
  std::map<WorkKind, Nanoseconds> work;  ///< The time of any piece of this kind.
  /// For this kind and label; replaces the time in `work`.
  std::map<std::pair<WorkKind, std::string>, Nanoseconds> labelled_work;
  std::map<CollectiveKind, CollectiveCost> collectives;  ///< A kind that is not named costs nothing.
  /// For this kind and tag; replaces the time in `collectives`.
  std::map<std::pair<CollectiveKind, std::string>, Nanoseconds> tagged_collectives;
  Nanoseconds host_call = 0;  ///< Host time of every submission and collective.

  Nanoseconds of_work(WorkKind kind, const std::string& label) const;
  Nanoseconds of_collective(CollectiveKind kind, const std::string& tag, std::size_t bytes) const;
  friend bool operator==(const CostModel&, const CostModel&) = default;
};

}  // namespace shardproof
