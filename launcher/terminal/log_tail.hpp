// What ranks print, as they print it: every line behind its rank, read from the logs that the ranks write into.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

class LogTail {
 public:
  /// `ranks` that a world of `size` does not have are left out. `together`: all ranks share the log of rank 0.
  /// `names_world`: lines stand behind the world's number, too.
  LogTail(const WorldDirectory& directory, const std::vector<int>& ranks, int size, bool together, bool names_world);

  /// The whole lines that have come since the last call; when `is_over`, also what stands behind the last of them.
  std::string more(bool is_over);

 private:
  struct Log {
    std::filesystem::path file;
    std::string prefix;
    std::size_t read = 0;
    std::string rest;  ///< of a line that is not whole yet
  };
  static void take(Log& log, bool is_over, std::string& into);

  std::vector<Log> logs_;
};

}  // namespace shardproof::launcher
