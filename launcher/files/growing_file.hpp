// Reads a file that another process appends to: each call returns what is new.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

namespace shardproof::launcher {

class GrowingFile {
 public:
  explicit GrowingFile(std::filesystem::path file) : file_(std::move(file)) {}

  /// Returns the bytes after those of earlier calls: about `most` at most. Empty: there are none, the file does
  /// not exist, or it is not a regular file.
  std::string more(std::size_t most = std::string::npos);

 private:
  std::filesystem::path file_;
  std::size_t read_ = 0;
};

}  // namespace shardproof::launcher
