// How long work and collectives take, and how a device runs them: in virtual time on every device, and spun on GPUs. Data of a scenario;
// pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "harness/protocol/trace.hpp"

namespace shardproof {

/// The time of one kind of collective: `fixed`, plus `per_kib` for every begun KiB of its larger side.
struct CollectiveCost {
  Nanoseconds fixed = 0;
  Nanoseconds per_kib = 0;
  friend bool operator==(const CollectiveCost&, const CollectiveCost&) = default;
};

struct CostModel {
  static constexpr int most_imagined_ranks = 1024;

  std::map<WorkKind, Nanoseconds> work;  ///< of every piece of this kind
  std::map<std::pair<WorkKind, std::string>, Nanoseconds> labelled_work;  ///< of this kind and label; instead of the above
  std::map<CollectiveKind, CollectiveCost> collectives;  ///< a kind not named costs nothing
  std::map<std::pair<CollectiveKind, std::string>, Nanoseconds> tagged_collectives;  ///< of this kind and tag; instead of the above
  Nanoseconds host_call = 0;  ///< host time of every submission and collective
  bool separate_resources = false;  ///< each kind of collective has its own resource, instead of one per group
  /// In a world of one rank: collectives are those of so many, of which this is the first, and the others are imagined to hold what it
  /// holds. Nobody is talked to; work stands for communication, and costs what the collective would. 0: nobody is imagined.
  int imagined_ranks = 0;
  bool single_stream = false;  ///< everything runs on the compute stream: the serial reference
  /// While a piece of work runs, every buffer that it declares no part of is filled with a poison value, and restored afterwards; a declared
  /// f32 output that it leaves unwritten is a std::logic_error. Takes no virtual time, but real time in proportion to all that is alive.
  bool hide_undeclared_memory = false;

  Nanoseconds of_work(WorkKind kind, const std::string& label) const;
  Nanoseconds of_collective(CollectiveKind kind, const std::string& tag, std::size_t bytes) const;
  friend bool operator==(const CostModel&, const CostModel&) = default;
};

}  // namespace shardproof
