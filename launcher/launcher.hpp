// The `shardproof` command: asks a worker what it can do, plans worlds, spawns their ranks, watches them on descriptors and deadlines
// alone, and turns what they leave behind into one report. It never runs a case itself and never links an engine, a device library or
// Catch2: whatever a rank does, the launcher outlives it. This header holds what all of the room shares: exit codes and the error that
// carries one.
#pragma once

#include <stdexcept>
#include <string>

namespace shardproof::launcher {

/// In the order in which they apply: the first that does is the process's exit code. A launcher that was interrupted by a signal ends with
/// 128 + its number instead, as shells do.
enum ExitCode : int {
  all_passed = 0,
  case_failed = 1,
  usage = 2,              ///< bad arguments, nothing selected, output unusable
  infrastructure = 3,     ///< the worker is not one, or its ranks could not meet
  crashed_or_hung = 4,
  evidence_unusable = 5,  ///< missing, corrupt, or ranks disagree
  over_budget = 6,        ///< skips or waivers
};

/// Ends the command with a message for its user.
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace shardproof::launcher
