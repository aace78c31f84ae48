// One world from its first process to its last: spawned, watched on descriptors and deadlines alone, ended when one of its ranks is. It waits
// for nothing itself, so that several can be on their way in one thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/run/records.hpp"

namespace shardproof::launcher {

class WarmProcess;

/// How ranks are started.
struct WorldLaunch {
  std::filesystem::path worker;
  std::vector<std::string> environment;
  WarmProcess* warm = nullptr;  ///< that ranks are copies of; none: each is started by itself
  std::chrono::milliseconds joining = joining_limit;
  int debug = -1;  ///< a rank that is to wait for a debugger before its first case; -1: none
  std::vector<int> output_of;  ///< ranks whose output is shown as it comes
  bool names_world = false;  ///< before each of its lines: other worlds run beside it
  std::function<void(const std::string&)> print;  ///< what must be seen, in whole lines; empty: nowhere
  std::function<void(const std::string&)> notice;  ///< a line about a case that takes long; empty: nobody wants to know
};

/// Shows how a world gets on, no more often than every `interval`.
struct LiveView {
  std::chrono::milliseconds interval{100};
  std::function<void(const ControlPage&)> show;
};

struct WorldOutcome {
  Remains remains;
  bool complete = false;  ///< every rank left in order: nothing of the plan is left to run
  bool began = false;  ///< some rank came to its first case
  bool overran = false;  ///< it was a deadline that ended it
  std::string cut_short;  ///< why the world is not complete
  std::string infrastructure_error;  ///< why ranks could not meet or part, with what the guilty one said last
  bool interrupted = false;  ///< by `interrupt`
  std::chrono::nanoseconds duration{0};
};

class RunningWorld {
 public:
  RunningWorld() = default;
  RunningWorld(const RunningWorld&) = delete;
  RunningWorld& operator=(const RunningWorld&) = delete;
  /// Kills what still lives.
  virtual ~RunningWorld() = default;

  /// Readable when something has happened to it.
  virtual int descriptor() const = 0;
  /// When it wants to look even if nothing has.
  virtual Deadline deadline() const = 0;
  /// At all that has happened. Without a reason, it costs little.
  virtual void look() = 0;
  /// Releases its ranks and ends them: somebody wants to have done with it. Asked twice, it gives them no time.
  virtual void interrupt(const std::string& why) = 0;
  virtual bool is_over() const = 0;
  /// Of one that is over; once.
  virtual WorldOutcome outcome() = 0;
};

/// Starts the ranks. Gives `plan` its nonce and its directories, and writes it to `directory`; both are borrowed, as is `launch`.
/// Throws CommandError when the world cannot even be laid out.
std::unique_ptr<RunningWorld> start_world(WorldPlan& plan, const WorldDirectory& directory, const WorldLaunch& launch,
                                          std::optional<LiveView> view);

}  // namespace shardproof::launcher
