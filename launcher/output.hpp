// Where a run's results go: a directory that held nothing before, files written whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string_view>

#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

/// Makes `asked`, which must be empty where it exists; where none is asked for, a new directory under `shardproof-out/` of the current
/// one, to which `shardproof-out/latest` then points. Throws CommandError (usage).
RunDirectory make_run_directory(const std::filesystem::path& asked);

/// Throws CommandError (usage) when the directory cannot be made.
void make_directory(const std::filesystem::path& directory);

/// Replaces the file at once, so that a reader sees the old text or the new one. Throws CommandError (usage): the output is unusable.
void write_file(const std::filesystem::path& file, std::string_view text);
/// The same for what is too long to be one text.
void write_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);

/// Throws CommandError (usage) when nothing more can be written below `directory`, for instance because its disk is full. Ranks that die
/// for want of space say so nowhere: their logs need space too.
void require_writable(const std::filesystem::path& directory);

}  // namespace shardproof::launcher
