// Writes result files and logs. A file is written completely or not at all. A failure to write has its own error.
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

/// The error (usage) for an output that cannot be used. `why` is the reason.
CommandError unusable_output(const std::filesystem::path& path, const std::string& why);
/// The same for an operation that the system refuses.
CommandError unusable_output(const std::filesystem::path& path, const char* operation, const std::error_code& why);

/// Throws CommandError (usage) if the directory cannot be made.
void make_directory(const std::filesystem::path& directory);

/// Replaces the file atomically: a reader sees the old text or the new text. Throws CommandError (usage): the output is
/// unusable.
void write_file(const std::filesystem::path& file, std::string_view text);
/// The same for long output, which `write` writes in pieces.
void write_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);

/// The same for a file of a run directory. A rank may have put a link or a pipe in its place: that is replaced, and
/// never written through. `folders`: as in base::open_evidence_file. A link in the place of such a folder is an error.
void write_own_file(const std::filesystem::path& file, std::string_view text, int folders);
void write_own_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write, int folders);

/// The same for a text that only this user may read.
void write_secret(const std::filesystem::path& file, std::string_view text, int folders);
/// Reads it. Throws base::UnreadableFile for a link, and for a file that other users may read or replace.
std::string read_secret(const std::filesystem::path& file, int folders);

/// Opens a file of a run directory to add text at its end. Makes it if necessary. Not valid if something else than a
/// regular file is there, or a link is in the place of one of these folders.
base::FileDescriptor append_to_own_file(const std::filesystem::path& file, int folders);

/// Throws CommandError (usage) if a symbolic link is there.
void refuse_link(const std::filesystem::path& file);

/// Adds `text` at the end of a file that other programs write, too. Makes the file if necessary. An empty text only
/// checks whether this is possible. Throws CommandError (usage).
void append_file(const std::filesystem::path& file, std::string_view text);

/// Opens an empty log. Processes append to it in turn. Refuses a symbolic link. Throws CommandError (usage).
base::FileDescriptor open_log(const std::filesystem::path& file);

/// Throws CommandError (usage) if the file exists, or its folder does not. A device or a pipe may exist: it is there
/// for writing.
void require_new_file(const std::filesystem::path& file);

/// Throws CommandError (usage) if no more data can be written in `directory`, for instance because its disk is full.
/// Ranks that die for lack of space cannot report it: their logs need space too.
void require_writable(const std::filesystem::path& directory);

}  // namespace shardproof::launcher
