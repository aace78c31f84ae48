// A world that a foreign launcher started (torchrun, mpirun, srun). Rank 0 makes what our own launcher would have made,
// and the other ranks wait for it.
#pragma once

#include <chrono>
#include <optional>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "harness/runner/command_line.hpp"

namespace shardproof::runner {

class ForeignWorld {
 public:
  /// Plans all cases of the world's size that the filters select, on the requested subject or the program's first. Rank
  /// 0 leaves `listing` in the run directory, for the merge.
  ///
  /// Throws UsageError if no case is selected. Throws std::runtime_error if
  /// - the run directory has been used before,
  /// - rank 0 does not come, or
  /// - rank 0 could not make the world. Then the text has its reason.
  ForeignWorld(const protocol::Identity& identity, const CommandLine& line, const protocol::Listing& listing,
               std::chrono::milliseconds for_first_to_come = 2 * protocol::joining_limit);

  const protocol::WorldPlan& plan() const { return plan_; }

 private:
  void make(const CommandLine& line, const protocol::Listing& listing);

  protocol::WorldPlan plan_;
  /// On rank 0 only. When it is destroyed, all ranks have mapped the files in it.
  std::optional<rendezvous::RendezvousDirectory> rendezvous_;
};

}  // namespace shardproof::runner
