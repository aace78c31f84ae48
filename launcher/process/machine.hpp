// What a report says about where it was made: the machine, the environment as far as it changes results, the commit of the tests' source.
#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace shardproof::launcher {

/// Cores that this process may use; 0: unknown.
int usable_cores();

/// host, kernel, architecture, cpu, cores (those that this process may use).
std::map<std::string, std::string> machine_facts();

/// Of the driver of NVIDIA's GPUs, as its module tells it; empty: there is none.
std::string driver_version();

/// Of all variables, those that are known to change what a run does. The rest is nobody's business.
std::map<std::string, std::string> recorded_environment(std::span<const std::string> environment);

/// `2030-01-02T03:04:05Z`
std::string utc_text(std::time_t time);

/// The commit that is checked out around `directory`, read from git's own files; empty where there is none.
std::string git_commit(const std::filesystem::path& directory);

}  // namespace shardproof::launcher
