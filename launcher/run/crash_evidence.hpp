// Writes the stack of each rank that died by a signal into the evidence of its world, or the reason for a missing
// stack. A running world (world.cpp) owns it from the end of its last rank on, while the records of the ranks' handlers
// exist. It does not block the launcher, and takes at most `time_limit`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/protocol/ending.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"

namespace shardproof::launcher {

class CrashEvidence {
 public:
  static constexpr std::chrono::seconds time_limit{20};

  /// Writes `rank-N.crash` for each rank that has no record, and starts one child process that reads the records of all
  /// others. The child writes their files, the ranks that caused the end first. This object uses `key` of the poller.
  /// A failure to read or write stops no other work.
  CrashEvidence(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                std::span<const protocol::Ending> endings, Poller& poller, std::uint64_t key);
  ~CrashEvidence() { stop("there was no time to read its record"); }
  CrashEvidence(const CrashEvidence&) = delete;
  CrashEvidence& operator=(const CrashEvidence&) = delete;

  /// The caller calls this if the descriptor with the key is readable, or `deadline()` has passed.
  void advance(const std::vector<std::uint64_t>& ready, control::Deadline now);
  /// Ends the child process. The ranks that it has not reached get the reason `why`.
  void stop(std::string_view why);
  bool done() const { return !reader_; }
  control::Deadline deadline() const { return until_; }

  /// A rank whose handler has left a record.
  struct CrashedRank {
    int rank = 0;
    std::filesystem::path record;
    bool is_thread = false;  ///< the record may be another rank's
  };

 private:
  void start();
  void give_up(std::string_view why) const;

  const protocol::WorldDirectory directory_;
  Poller& poller_;
  const std::uint64_t key_;
  const control::Deadline until_;
  std::vector<CrashedRank> crashed_;
  std::optional<Process> reader_;
};

}  // namespace shardproof::launcher
