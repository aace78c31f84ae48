// Writing results: files are written whole or not at all, and what cannot be written is an error of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>

#include "harness/base/file_descriptor.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

/// The error (usage) for an output that cannot be used, with the reason in words.
CommandError unusable_output(const std::filesystem::path& path, const std::string& why);
/// The same where the system refuses an operation.
CommandError unusable_output(const std::filesystem::path& path, const char* operation, const std::error_code& why);

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
