// Reads files that a user names, and files that ranks leave in a run directory. Both may be of any kind. A pipe without
// a writer must not block its reader forever. A rank may have replaced each file of its run by a link or a pipe. So a
// file of a run is read only if it is a regular file in its own place.
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::base {

/// The reason why a file cannot be read: `cannot read /whole/path: No such file or directory`.
class UnreadableFile : public std::runtime_error {
 public:
  UnreadableFile(const std::filesystem::path& file, const std::string& why);
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

/// Opens a regular file, or a pipe that has a writer, at its beginning. The reader waits for the pipe's writer. A
/// signal that ends processes ends this process during that wait, even where the signal is blocked otherwise. Throws
/// UnreadableFile.
std::unique_ptr<std::istream> open_input(const std::filesystem::path& file);

/// Reads the whole file. Throws UnreadableFile.
std::string read_input(const std::filesystem::path& file);

/// Opens the folder of a file of a run directory. None of the `folders` innermost folders above the file may be a
/// symbolic link. Throws UnreadableFile.
FileDescriptor open_evidence_folder(const std::filesystem::path& file, int folders);
/// Opens a file of a run directory. Neither the file nor one of the `folders` folders above it may be a symbolic link:
/// for `worlds/0/ranks/rank-0.jsonl` and one folder, that is `ranks`. Never waits. Throws UnreadableFile, which says
/// what is there in place of a regular file.
FileDescriptor open_evidence_file(const std::filesystem::path& file, int folders = 0);
/// The same, as a stream at its beginning.
std::unique_ptr<std::istream> open_evidence(const std::filesystem::path& file, int folders = 0);
/// Reads the whole file. A file with more than `most_bytes` is unreadable.
std::string read_evidence(const std::filesystem::path& file, int folders = 0,
                          std::size_t most_bytes = std::numeric_limits<std::size_t>::max());

/// Whether the name exists, also as a symbolic link that leads nowhere.
bool is_there(const std::filesystem::path& file);

}  // namespace shardproof::base
