// Reads files that a user names or leaves, which may be of any kind. A pipe without a writer must not block its reader
// forever.
#pragma once

#include <filesystem>
#include <istream>
#include <memory>
#include <stdexcept>
#include <string>

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

}  // namespace shardproof::base
