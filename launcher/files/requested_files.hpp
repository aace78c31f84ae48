// Files that a user asks for by options, besides the files of the run. They are checked before the run begins: a result
// that cannot be written is noticed too late after it.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "launcher/files/claimed_directory.hpp"

namespace shardproof::launcher {

struct RequestedFile {
  const char* option;
  std::filesystem::path path;
  const char* example;  ///< a name in the output directory
};

/// The names of the files that are in the output directory. Its owner has to note them (ClaimedDirectory::note_file).
/// Throws CommandError (usage):
///   - if a file cannot be written, or exists,
///   - if two options name one file,
///   - if the run itself uses the place.
std::vector<std::string> require_requested_files(std::span<const RequestedFile> files, const OutputOptions& out);

}  // namespace shardproof::launcher
