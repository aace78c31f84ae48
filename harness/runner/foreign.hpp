// A world that somebody else's launcher started: rank 0 makes what our own launcher would have made, the others wait for it.
#pragma once

#include <optional>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "harness/runner/command_line.hpp"

namespace shardproof {

class ForeignWorld {
 public:
  /// All cases of the world's size that the filters select, on the subject asked for or the program's first. Throws UsageError when nothing
  /// is selected, std::runtime_error when the run directory has been used before, rank 0 does not come, or it could not make the world: then
  /// with its reason. Rank 0 leaves `listing` in the run directory, for the merge.
  ForeignWorld(const Identity& identity, const CommandLine& line, const Listing& listing);

  const WorldPlan& plan() const { return plan_; }

 private:
  void make(const CommandLine& line, const Listing& listing);

  WorldPlan plan_;
  std::optional<RendezvousDirectory> rendezvous_;  ///< of rank 0; when it goes, all ranks have mapped what was in it
};

}  // namespace shardproof
