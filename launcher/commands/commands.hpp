// The subcommands, one file each. Each returns the process's exit code or throws CommandError.
#pragma once

#include <string>
#include <vector>

#include "launcher/commands/options.hpp"
#include "launcher/commands/play.hpp"

namespace shardproof::launcher {

int run_command(RunOptions options, std::vector<std::string> argv);
int list_command(const ListOptions& options);
int faults_command(FaultsOptions options, const std::vector<std::string>& argv);
int merge_command(const MergeOptions& options);
int diff_command(const DiffOptions& options);
int doctor_command(const DoctorOptions& options);
int explain_command(const ExplainOptions& options);
int play_command(const PlayOptions& options, const std::vector<std::string>& argv);
int explore_command(const ExploreOptions& options, const std::vector<std::string>& argv);
int stable_command(const StableOptions& options);

}  // namespace shardproof::launcher
