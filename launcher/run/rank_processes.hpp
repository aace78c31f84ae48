// The processes of a world's ranks: one process for each rank, or a single process if ranks are threads. A running
// world (run/world.cpp) owns it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"
#include "launcher/run/world.hpp"

namespace shardproof::launcher {

/// Raises this process's limit of open files for `ranks` ranks in `worlds` simultaneous worlds. Each rank needs a
/// descriptor, and the usual limit equals the size of the largest world. Throws CommandError if the limit cannot be
/// raised that far.
void allow_descriptors(int ranks, std::size_t worlds);

class RankProcesses {
 public:
  /// Borrows all arguments.
  RankProcesses(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory, const WorldLaunch& launch,
                Poller& poller);

  struct Failure {
    int rank = 0;
    std::string why;
  };
  /// Starts ranks in ascending order. The poller's key for each process is the rank. Stops at the first rank that
  /// cannot be started, and returns the reason. Throws CommandError if a log cannot be opened.
  std::optional<Failure> start();

  bool is_one_process() const { return plan_.fabric == protocol::thread_fabric; }
  /// Whether the rank's process was started and has not ended.
  bool is_alive(int rank) const { return process(rank) != nullptr; }
  std::vector<int> alive() const;
  bool all_have_ended() const { return alive_ == 0; }
  pid_t pid(int rank) const { return process(rank)->pid(); }

  struct Ended {
    int rank = 0;  ///< 0 if all ranks are one process
    Exit end;
  };
  /// Returns the ranks with these poller keys that have ended, and no longer counts them as alive. Deaths by a signal
  /// come first: they explain why another rank gave up.
  std::vector<Ended> collect(const std::vector<std::uint64_t>& ready);

  /// Sends a signal to each rank and to all processes that it has started.
  void signal_all(int number) noexcept;

  struct Abandoned {
    int rank = 0;
    pid_t process = 0;
  };
  /// Gives up all ranks that still live. The launcher no longer waits for them.
  std::vector<Abandoned> abandon();

 private:
  const std::shared_ptr<Process>& process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<Process>& process(int rank) { return processes_[static_cast<std::size_t>(rank)]; }
  Process spawn(int rank);
  void share_process(int rank);
  bool is_wrapped(int rank) const;
  bool is_debugged(int rank) const;
  void print_debugger_hint(int rank) const;

  const protocol::WorldPlan& plan_;
  const protocol::WorldDirectory& directory_;
  const WorldLaunch& launch_;
  Poller& poller_;
  std::vector<std::shared_ptr<Process>> processes_;  ///< by rank; nullptr: not started, or ended
  int alive_ = 0;
};

}  // namespace shardproof::launcher
