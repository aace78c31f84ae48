// Writes the completions of the command line for shells. Pure.
#pragma once

#include <string>

#include "launcher/manual/command_reference.hpp"

namespace shardproof::launcher {

/// The file `shardproof` of bash-completion, which also works when a user sources it.
std::string bash_completion(const ProgramReference& program);

/// The file `_shardproof` in a folder of zsh's `fpath`.
std::string zsh_completion(const ProgramReference& program);

}  // namespace shardproof::launcher
