// The processes of a world's ranks: one for each, or a single one for all where ranks are threads.
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

/// Each rank costs a descriptor, and the usual limit is that of the largest world: raises it for this process, for so many ranks in so many
/// worlds at a time. Throws CommandError where it cannot be raised as far.
void allow_descriptors(int ranks, std::size_t worlds);

class RankProcesses {
 public:
  /// All are borrowed.
  RankProcesses(const WorldPlan& plan, const WorldDirectory& directory, const WorldLaunch& launch, Poller& poller);

  struct Failure {
    int rank = 0;
    std::string why;
  };
  /// Starts them in order of rank, which is also the poller's key for each. None is tried after one that cannot be started. Throws CommandError
  /// for logs that cannot be opened.
  std::optional<Failure> start();

  bool are_one() const { return plan_.fabric == thread_fabric; }
  /// Whether its process was started and has not ended.
  bool is_alive(int rank) const { return process(rank) != nullptr; }
  std::vector<int> alive() const;
  bool all_have_ended() const { return alive_ == 0; }
  pid_t pid(int rank) const { return process(rank)->pid(); }

  struct Ended {
    int rank = 0;  ///< the first, where they are one
    Exit end;
  };
  /// Of those with these keys of the poller, who has ended and is alive no more. Who died by a signal comes first: that explains one that gave
  /// up.
  std::vector<Ended> collect(const std::vector<std::uint64_t>& ready);

  /// To each and to all that it has started.
  void signal_all(int number) noexcept;

  struct Abandoned {
    int rank = 0;
    pid_t process = 0;
  };
  /// Lets go of all that still live: nobody waits for them any more.
  std::vector<Abandoned> leave_behind();

 private:
  const std::shared_ptr<Process>& process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<Process>& process(int rank) { return processes_[static_cast<std::size_t>(rank)]; }
  Process spawn(int rank);
  void move_in(int rank);
  bool is_debugged(int rank) const;
  void tell_debugger(int rank) const;

  const WorldPlan& plan_;
  const WorldDirectory& directory_;
  const WorldLaunch& launch_;
  Poller& poller_;
  std::vector<std::shared_ptr<Process>> processes_;  ///< by rank; none: not started, or ended
  int alive_ = 0;
};

}  // namespace shardproof::launcher
