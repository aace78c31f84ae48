// The `shardproof` command. It asks a worker for its cases, plans worlds, and spawns their ranks. It watches ranks on
// descriptors and deadlines only, and merges their evidence into one report.
//
// The launcher never runs a case itself, and never links an engine, a device library or Catch2: it outlives whatever a
// rank does. This header has what all parts of the launcher share: exit codes, and the error that carries an exit code.
#pragma once

#include <stdexcept>
#include <string>

#include "reports/model/exit_code.hpp"

namespace shardproof::launcher {

/// A launcher that signal n interrupts ends with 128 + n instead, like a shell.
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
