// Parses a command line: chooses the subcommand, and gives it the values of its options.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launcher/commands/subcommand.hpp"

namespace CLI {
class App;
}

namespace shardproof::launcher {

/// The subcommand that the command line names, with its options. Nullptr if the command line asked for help or the
/// version, which has then been printed. Throws CommandError (usage) with the part that it does not understand.
std::unique_ptr<Subcommand> parse_command_line(int argc, const char* const* argv);

/// Gives `command` the options of a command line that names it. Throws like `parse_command_line`.
void parse_options(Subcommand& command, const std::vector<std::string>& argv);

/// Declares the options of the program and of its subcommands in `app`, which borrows the subcommands.
void declare_program(CLI::App& app, std::span<Subcommand* const> subcommands);

}  // namespace shardproof::launcher
