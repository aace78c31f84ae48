// The directory that a command writes into. Only one command at a time can own it. A later command recognises it by its
// marker (own_files.hpp).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/base/file_descriptor.hpp"
#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

/// Where a command writes.
struct OutputOptions {
  std::filesystem::path directory;  ///< empty: the user named no directory
  bool overwrite = false;  ///< replace an earlier run in it
};

class ClaimedDirectory {
 public:
  /// Makes the directory that the user named, or else a new one under `shardproof-out/` in the current directory. An
  /// existing directory has to be empty, unless --overwrite replaces an earlier run (earlier_run.hpp). Throws
  /// CommandError (usage).
  explicit ClaimedDirectory(const OutputOptions& requested);

  const std::filesystem::path& path() const { return path_; }
  protocol::RunDirectory run() const { return {path_}; }
  /// Records a file that the user has put into this directory by an option. A later replacement deletes it, too.
  void note_file(const std::string& name);

 private:
  std::filesystem::path path_;
  base::FileDescriptor marker_;  ///< locked during this object's lifetime
};

/// The path of `file` relative to the directory, or `.` for the directory itself. Empty: `file` is not in the
/// directory. Neither has to exist.
std::optional<std::filesystem::path> path_in(const std::filesystem::path& directory, const std::filesystem::path& file);

/// For texts: the path of `file` relative to the current directory if it is below that, else `file`.
std::filesystem::path relative_to_current(const std::filesystem::path& file);

/// Throws CommandError (usage) if the output would replace a run that contains `input`.
void require_not_replaced(const std::filesystem::path& input, const OutputOptions& output);

/// Makes the link `latest` in `shardproof-out/` of the current directory lead to the run, if that folder exists.
/// Returns the reason if it cannot.
std::optional<std::string> point_latest_to(const protocol::RunDirectory& run);

}  // namespace shardproof::launcher
