// The processes of a world's ranks, as children of this process: one process for each rank, or a single process if
// ranks are threads. A running world (run/world.cpp) owns it.
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
#include "launcher/run/ranks.hpp"
#include "launcher/run/world.hpp"

namespace shardproof::launcher {

/// Raises this process's limit of open files for `ranks` ranks in `worlds` simultaneous worlds. Each rank needs a
/// descriptor, and the usual limit equals the size of the largest world. Throws CommandError if the limit cannot be
/// raised that far. `has_hub`: a command starts the ranks, and strangers may take a part of the limit
/// (control/link/hub.hpp).
void allow_descriptors(int ranks, std::size_t worlds, bool has_hub);

class RankProcesses final : public Ranks {
 public:
  /// Borrows all arguments. The poller's key for each process is the rank.
  RankProcesses(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory, const WorldLaunch& launch,
                Poller& poller);

  /// First makes the ranks that are copies. Then starts the others in ascending order, and stops at the first rank that
  /// cannot be started.
  std::optional<Failure> start() override;
  bool is_one_process() const override { return plan_.fabric == protocol::thread_fabric; }
  bool is_alive(int rank) const override { return process(rank) != nullptr; }
  bool all_have_ended() const override { return alive_ == 0; }
  pid_t pid(int rank) const override { return process(rank)->pid(); }
  bool shows_end(const std::vector<std::uint64_t>& ready) const override;
  std::vector<Ended> collect(const std::vector<std::uint64_t>& ready) override;
  void signal_all(int number) noexcept override;
  std::vector<Abandoned> abandon() override;

 private:
  const std::shared_ptr<Process>& process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<Process>& process(int rank) { return processes_[static_cast<std::size_t>(rank)]; }
  std::vector<int> ranks_to_copy() const;
  /// Throws WarmProcess::NoCopy.
  void copy(const std::vector<int>& ranks);
  Process spawn(int rank);
  void take(int rank, Process started);
  void drop(int rank);
  std::vector<std::string> common_environment() const;
  std::vector<std::string> own_environment(int rank) const;
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
