// The origin of a report: the machine, the variables that change results, and the commit of the tests' source. Commands
// put these facts into the report's head.
#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace shardproof::launcher {

/// The number of cores that this process may use. 0: unknown.
int usable_cores();

/// host, kernel, architecture, cpu, cores. The cores are those that this process may use. A fact that is unknown is
/// absent.
std::map<std::string, std::string> machine_facts();

/// The version line of NVIDIA's driver, from its kernel module. Empty: the driver is not loaded.
std::string driver_version();

/// The variables that can change what a run does. All others stay private.
std::map<std::string, std::string> recorded_environment(std::span<const std::string> environment);

/// `2030-01-02T03:04:05Z`
std::string utc_text(std::time_t time);

/// The commit that is checked out around `directory`, from git's own files. Empty: there is no git repository, or
/// `directory` is empty.
std::string git_commit(const std::filesystem::path& directory);

}  // namespace shardproof::launcher
