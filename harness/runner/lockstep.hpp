// Runs the plan's cases in lockstep on all ranks. For each case, the ranks agree to start it, run its body, and agree
// on its end.
#pragma once

#include <span>
#include <string>

#include "harness/cases/bound_case.hpp"
#include "harness/runner/body_run.hpp"
#include "harness/world/world.hpp"

namespace shardproof::runner {

/// How the cases of a world ended. It is the same on all ranks.
struct LockstepEnd {
  std::string cut_short;  ///< Why no case follows the last case that ran. Empty: all cases ran.
  bool is_defective = false;  ///< A rank can run no further case: it lost its GPU, for example.
  /// No case follows because the last case changed its process, or its fabric. Other processes can go on.
  bool is_by_case = false;
};

/// Runs the cases of the world's plan with `runner`. `cases` are the plan's cases, in its order. Each rank writes its
/// own results to its own stream.
///
/// Throws
/// - Released if the world is doomed. A running case is then already written as released.
/// - WorldMismatch if the ranks do not agree on the next case.
/// - std::system_error if an event cannot be written.
LockstepEnd run_in_lockstep(world::World& world, std::span<const cases::BoundCase* const> cases, BodyRunner& runner);

}  // namespace shardproof::runner
