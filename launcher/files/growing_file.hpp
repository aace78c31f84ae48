// Reads a log that a rank appends to: each call returns what is new.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

namespace shardproof::launcher {

class GrowingFile {
 public:
  explicit GrowingFile(std::filesystem::path file) : file_(std::move(file)) {}

  /// Returns the bytes that earlier calls did not return, up to about `most`. Empty: no new bytes, no such file, or not
  /// a regular file. Neither it nor its folder may be a symbolic link.
  std::string read_new(std::size_t most = std::string::npos);

 private:
  std::filesystem::path file_;
  std::size_t read_ = 0;
};

}  // namespace shardproof::launcher
