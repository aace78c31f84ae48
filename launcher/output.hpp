// Where a run's results go: a directory that held nothing before, files written whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "harness/protocol/file_descriptor.hpp"
#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

/// Makes `asked`, which must be empty where it exists; where none is asked for, a new directory under `shardproof-out/` of the current
/// one. Of several that ask for one directory at once, one gets it. Throws CommandError (usage).
RunDirectory make_run_directory(const std::filesystem::path& asked);
/// The same for a directory that is to hold several runs, or what comes of them, of which `first` is one: the claim to it is that entry.
std::filesystem::path claim_directory(const std::filesystem::path& asked, const std::string& first);

/// Makes the link `latest` beside the run lead to it. What stands in its way is said, and no reason not to run.
std::optional<std::string> point_latest_to(const RunDirectory& run);

/// Throws CommandError (usage) when the directory cannot be made.
void make_directory(const std::filesystem::path& directory);

/// Replaces the file at once, so that a reader sees the old text or the new one. Throws CommandError (usage): the output is unusable.
void write_file(const std::filesystem::path& file, std::string_view text);
/// The same for what is too long to be one text.
void write_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);

/// Empty, for processes to write to behind each other. Throws CommandError (usage).
FileDescriptor open_log(const std::filesystem::path& file);

/// Throws CommandError (usage) when a file would be overwritten, or has no folder to be made in. What is no plain file, a device or a pipe,
/// is there to be written to.
void require_new_file(const std::filesystem::path& file);

/// Throws CommandError (usage) when nothing more can be written below `directory`, for instance because its disk is full. Ranks that die
/// for want of space say so nowhere: their logs need space too.
void require_writable(const std::filesystem::path& directory);

}  // namespace shardproof::launcher
