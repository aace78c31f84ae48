// Keeps what a rank prints while a case runs that goes wrong, so that a report can show it beside the failure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/protocol/run_directory.hpp"

namespace shardproof::runner {

class CaseOutput {
 public:
  /// Notes how long the logs of the rank are. Call it before the case's body runs. Borrows `directory`. If all ranks
  /// are threads of one process, they have one log, and the output of each is the output of all.
  CaseOutput(const protocol::WorldDirectory& directory, int rank);

  /// Copies the end of what was printed since then, up to `most_bytes` of each stream, into the evidence of the world.
  /// Writes no file if nothing was printed, or if the streams are not the logs of the rank. If the case is repeated in
  /// this world, the first output stays.
  void keep(const std::string& id) const;

  static constexpr std::size_t most_bytes = 4096;

 private:
  const protocol::WorldDirectory& directory_;
  int rank_;
  std::array<std::int64_t, 2> begins_;  ///< of standard output and standard error. -1: not a log
};

}  // namespace shardproof::runner
