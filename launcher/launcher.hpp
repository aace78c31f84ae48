// The `shardproof` command: asks a worker what it can do, plans worlds, spawns their ranks, watches them on descriptors and deadlines
// alone, and turns what they leave behind into one report. It never runs a case itself and never links an engine, a device library or
// Catch2: whatever a rank does, the launcher outlives it. This header holds what all of the room shares: exit codes and the error that
// carries one.
#pragma once

#include <stdexcept>
#include <string>

#include "reports/model/exit_code.hpp"

namespace shardproof::launcher {

/// A launcher that was interrupted by a signal ends with 128 + its number instead, as shells do.
using reports::ExitCode;
using enum reports::ExitCode;

/// Ends the command with a message for its user.
class CommandError : public std::runtime_error {
 public:
  CommandError(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }
  bool is_interrupt() const { return code_ > 128; }

 private:
  ExitCode code_;
};

}  // namespace shardproof::launcher
