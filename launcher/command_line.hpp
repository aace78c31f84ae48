// From argv to options. The only file that knows CLI11, which costs seconds to compile.
#pragma once

#include <variant>

#include "launcher/options.hpp"

namespace shardproof::launcher {

/// The exit code of a command line that is answered by itself: help, version, or a mistake.
struct Answered {
  int exit_code = 0;
};

/// Prints help or what is wrong with the arguments.
std::variant<Options, Answered> parse_command_line(int argc, const char* const* argv);

}  // namespace shardproof::launcher
