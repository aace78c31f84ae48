// A world that somebody else's launcher started: rank 0 makes what our own launcher would have made, the others wait for it.
#pragma once

#include <filesystem>
#include <optional>

#include "harness/cases/command_line.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof {

class ForeignWorld {
 public:
  /// All cases of the world's size that the filters select, on the subject asked for or the program's first. Throws UsageError when nothing
  /// is selected, std::runtime_error when the run directory has been used before or rank 0 does not come. Rank 0 leaves `listing` in the
  /// run directory, for the merge.
  ForeignWorld(const Identity& identity, const CommandLine& line, const Listing& listing);
  ForeignWorld(const ForeignWorld&) = delete;
  ForeignWorld& operator=(const ForeignWorld&) = delete;
  /// Rank 0 removes the rendezvous directory: by then all ranks have mapped what was in it.
  ~ForeignWorld();

  const WorldPlan& plan() const { return plan_; }

 private:
  void make(const CommandLine& line, const Listing& listing);

  WorldPlan plan_;
  std::optional<std::filesystem::path> owned_;
};

}  // namespace shardproof
