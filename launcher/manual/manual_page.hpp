// Writes the manual pages, in the language of man(7). Pure.
#pragma once

#include <string>

#include "launcher/manual/command_reference.hpp"

namespace shardproof::launcher {

/// The name of the page of a command, or of the program, without its section.
std::string page_name(const CommandReference& command);

/// The text of the page. `date` is its date, as 2030-01-31.
std::string manual_page(const ProgramReference& program, const CommandReference& command, const std::string& date);

}  // namespace shardproof::launcher
