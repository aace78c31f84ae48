// Counts the processes that the kernel has killed because memory ran out. Such a process ends by SIGKILL, like a
// process that a user kills. Only this counter shows the difference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace shardproof::launcher {

/// The file with the counter of the control group of this process, or of the machine where there is no group.
/// `groups`: the content of /proc/self/cgroup. The file may not exist.
std::filesystem::path oom_counter_file(std::string_view groups);

/// The number after `oom_kill` in such a file. None if it is not there.
std::optional<std::uint64_t> oom_kills_in(std::string_view text);

/// The number so far, in the control group of this process. None if the system does not report it.
std::optional<std::uint64_t> oom_kills();

}  // namespace shardproof::launcher
