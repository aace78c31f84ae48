// Lets texts about failures name the files of a run directory, and show what is in them.
#pragma once

#include "harness/protocol/run_directory.hpp"
#include "reports/export/text_style.hpp"

namespace shardproof::launcher {

/// Texts in this style then have paths relative to the current directory: scenarios, stacks, and what ranks printed.
void show_files_of(reports::TextStyle& style, const protocol::RunDirectory& run);

}  // namespace shardproof::launcher
