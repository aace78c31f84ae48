// Reading what somebody named, or left behind, who may have left anything: a pipe that nobody writes to would hold up its reader for ever.
#pragma once

#include <filesystem>
#include <istream>
#include <memory>
#include <stdexcept>
#include <string>

namespace shardproof {

/// Why something cannot be read: `cannot read /whole/path: No such file or directory`.
class UnreadableFile : public std::runtime_error {
 public:
  UnreadableFile(const std::filesystem::path& file, const std::string& why);
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

/// From its beginning: a regular file, or a pipe that somebody writes to, whom its reader waits for; a signal that ends processes ends this
/// one meanwhile, be it blocked elsewhere. Throws UnreadableFile.
std::unique_ptr<std::istream> open_input(const std::filesystem::path& file);

/// All of it. Throws UnreadableFile.
std::string read_input(const std::filesystem::path& file);

}  // namespace shardproof
