// The cost model of a scenario: how long work and collectives take, and how a device runs them. The time is virtual on
// every device; a GPU also spins for it. It is data of a scenario, and its functions are pure.
#pragma once

#include <cstdint>
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
  static constexpr int most_imagined_ranks = 1024;

  std::map<WorkKind, Nanoseconds> work;  ///< The time of any piece of this kind.
  /// For this kind and label; replaces the time in `work`.
  std::map<std::pair<WorkKind, std::string>, Nanoseconds> labelled_work;
  std::map<CollectiveKind, CollectiveCost> collectives;  ///< A kind that is not named costs nothing.
  /// For this kind and tag; replaces the time in `collectives`.
  std::map<std::pair<CollectiveKind, std::string>, Nanoseconds> tagged_collectives;
  Nanoseconds host_call = 0;  ///< Host time of every submission and collective.
  /// Each kind of collective in a group has its own resource, instead of one resource per group.
  bool separate_resources = false;
  /// For a world of one rank. Its collectives are those of a group of this many ranks, and the real rank is the first
  /// of them. The other ranks are imagined: each holds what the real rank holds. Work on the device replaces the
  /// communication, and costs what the collective would cost. 0: no rank is imagined.
  int imagined_ranks = 0;
  bool single_stream = false;  ///< Everything runs on the compute stream: the serial reference.
  /// While a piece of work runs, the device fills every buffer that the work does not declare with a poison value. It
  /// restores these buffers afterwards. A declared f32 output with unwritten elements is a std::logic_error. This takes
  /// no virtual time. It takes real time in proportion to the live memory.
  bool hide_undeclared_memory = false;

  Nanoseconds of_work(WorkKind kind, const std::string& label) const;
  Nanoseconds of_collective(CollectiveKind kind, const std::string& tag, std::size_t bytes) const;
  friend bool operator==(const CostModel&, const CostModel&) = default;
};

}  // namespace shardproof
