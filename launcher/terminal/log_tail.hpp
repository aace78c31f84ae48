// Follows the logs that ranks write into. A world uses it to show the output of its ranks as it comes. Each line starts
// with the rank that printed it.
#pragma once

#include <string>
#include <vector>

#include "harness/protocol/run_directory.hpp"
#include "launcher/files/growing_file.hpp"

namespace shardproof::launcher {

class LogTail {
 public:
  /// Ignores `ranks` that a world of `size` does not have. `together`: all ranks share the log of rank 0.
  /// `names_world`: lines also start with the world's number.
  LogTail(const protocol::WorldDirectory& directory, const std::vector<int>& ranks, int size, bool together,
          bool names_world);

  /// Returns the complete lines since the last call. With `is_over`, also returns the incomplete last line of each log.
  std::string more(bool is_over);

 private:
  struct Log {
    GrowingFile file;
    std::string prefix;
    std::string rest;  ///< the beginning of an incomplete line
  };
  static void take(Log& log, bool is_over, std::string& into);

  std::vector<Log> logs_;
};

}  // namespace shardproof::launcher
