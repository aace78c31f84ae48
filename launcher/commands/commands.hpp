// The table of subcommands. Each function makes one, and is in the file of that subcommand.
#pragma once

#include <memory>
#include <vector>

#include "launcher/commands/subcommand.hpp"

namespace shardproof::launcher {

std::unique_ptr<Subcommand> make_run_command();
std::unique_ptr<Subcommand> make_list_command();
std::unique_ptr<Subcommand> make_faults_command();
std::unique_ptr<Subcommand> make_merge_command();
std::unique_ptr<Subcommand> make_diff_command();
std::unique_ptr<Subcommand> make_export_command();
std::unique_ptr<Subcommand> make_doctor_command();
std::unique_ptr<Subcommand> make_explain_command();
std::unique_ptr<Subcommand> make_play_command();
std::unique_ptr<Subcommand> make_explore_command();
std::unique_ptr<Subcommand> make_statement_command();
std::unique_ptr<Subcommand> make_stable_command();
std::unique_ptr<Subcommand> make_guard_command();

/// In the order of the help.
inline std::vector<std::unique_ptr<Subcommand>> make_commands() {
  std::vector<std::unique_ptr<Subcommand>> commands;
  for (const auto make :
       {make_run_command, make_list_command, make_faults_command, make_merge_command, make_diff_command,
        make_export_command, make_statement_command, make_doctor_command, make_explain_command, make_play_command,
        make_explore_command, make_stable_command, make_guard_command})
    commands.push_back(make());
  return commands;
}

}  // namespace shardproof::launcher
