// An earlier run's output directory, and its replacement by a later run. Only files that shardproof wrote are deleted
// (own_files.hpp): a file with any other name prevents the replacement. No link is followed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

/// Whether shardproof wrote this directory: it has a marker, or it is a run of a version that made none.
bool is_output_directory(const std::filesystem::path& directory);

/// Keeps other commands from writing to an existing run as long as the descriptor is open. A run that another launcher
/// started has no marker: its directory is locked. Throws CommandError (usage) where another command writes to the run
/// now.
base::FileDescriptor lock_run(const std::filesystem::path& directory);

class EarlierRun {
 public:
  /// Locks the marker in an output directory. Throws CommandError (usage) where another command writes to it now.
  explicit EarlierRun(std::filesystem::path directory);

  /// Deletes all but the marker, which stays locked, and returns it. Throws CommandError (usage) before it deletes
  /// anything: for a file that is not shardproof's, and for the root, the home and the current directory. A deletion
  /// that was cut short can be repeated.
  base::FileDescriptor clear() &&;

 private:
  enum class Pass : std::uint8_t { check, remove };

  /// `whole` is the path of the open folder, and `path` its path in its output directory; empty: the folder is an
  /// output directory.
  void sweep(int folder, const std::filesystem::path& whole, const std::string& path, Pass pass);
  void sweep_folder(int folder, const std::filesystem::path& whole, const std::string& path, Pass pass);
  CommandError foreign(const std::filesystem::path& file) const;

  std::filesystem::path directory_;
  base::FileDescriptor marker_;
  std::vector<base::FileDescriptor> inner_markers_;  ///< of output directories inside this one; locked
};

}  // namespace shardproof::launcher
