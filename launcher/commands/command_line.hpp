// From argv to options. Its source and help_formatter are the only ones that know CLI11, which costs seconds to compile.
#pragma once

#include <optional>

#include "launcher/commands/options.hpp"

namespace shardproof::launcher {

/// Nothing when the command line asked for help or the version, which has then been printed. Throws CommandError (usage) saying what of it
/// was not understood.
std::optional<Options> parse_command_line(int argc, const char* const* argv);

}  // namespace shardproof::launcher
