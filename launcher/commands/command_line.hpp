// Parses argv into options. Only its source file and help_formatter include CLI11, which takes seconds to compile.
#pragma once

#include <optional>

#include "launcher/commands/options.hpp"

namespace shardproof::launcher {

/// Empty if the command line asked for help or the version, which has then been printed. Throws CommandError (usage)
/// with the part that it does not understand.
std::optional<Options> parse_command_line(int argc, const char* const* argv);

}  // namespace shardproof::launcher
