// Runs one world from its first process to its last. The launcher spawns its ranks, and watches descriptors and
// deadlines only. If a rank dies, the world ends. Its functions do not block, so that one thread can run several
// worlds.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/control_plane.hpp"
#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/process/gpus.hpp"
#include "launcher/run/records.hpp"
#include "launcher/terminal/live_view.hpp"

namespace shardproof::launcher {

class OomKills;
class WarmProcess;

/// A command that starts the worker, such as a profiler. The shell reads it, in the rank's environment, and appends the
/// worker.
struct RankWrapper {
  std::string command;  ///< Empty: ranks are started by themselves.
  std::vector<int> ranks;  ///< The ranks that it starts. Empty: every rank.
};

/// How ranks are started.
struct WorldLaunch {
  std::filesystem::path worker;
  std::vector<std::string> environment;
  OomKills* oom_kills = nullptr;  ///< Shared by all worlds of the launcher. Nullptr: not counted.
  WarmProcess* warm = nullptr;  ///< Ranks are copies of it. Nullptr: each rank is started by itself.
  std::chrono::milliseconds joining = protocol::joining_limit;
  int debug = -1;  ///< This rank waits for a debugger before its first case. -1: no rank.
  RankWrapper wrapper;
  /// A command of the user, such as mpirun, that starts the ranks of a world (foreign_ranks.hpp). Empty: this process
  /// starts them.
  std::string launcher;
  /// With `launcher`, for ranks on GPUs: the terms on which guards find a GPU for each rank.
  std::optional<GpuTerms> gpus;
  /// With `launcher`: the time for the command to start all ranks of a world, and for guards to find GPUs.
  std::chrono::milliseconds join_timeout = protocol::joining_limit;
  /// With `launcher`: a host whose guards send nothing for this time is lost.
  std::chrono::milliseconds host_silence{};
  std::vector<int> output_of;  ///< Ranks whose output is shown while they run.
  bool names_world = false;  ///< Output lines start with the world: other worlds run at the same time.
  std::function<void(const std::string&)> print;  ///< Prints whole lines that must be shown. Empty: ignored.
  std::function<void(const std::string&)> notice;  ///< Gets a line about each slow case. Empty: ignored.
};

struct WorldOutcome {
  WorldEvidence evidence;
  bool complete = false;  ///< Every rank left in order, and no case of the plan is left.
  bool began = false;  ///< Some rank began its first case.
  bool overran = false;  ///< A deadline ended the world.
  bool lacked_room = false;  ///< A rank had no room for shared memory.
  std::string cut_short;  ///< Why the world is not complete.
  std::string infrastructure_error;  ///< Why ranks could not meet or part, with the guilty rank's last output.
  bool interrupted = false;  ///< Ended by `interrupt`.
  std::chrono::nanoseconds duration{0};
};

class RunningWorld {
 public:
  RunningWorld() = default;
  RunningWorld(const RunningWorld&) = delete;
  RunningWorld& operator=(const RunningWorld&) = delete;
  /// Kills the processes that still live.
  virtual ~RunningWorld() = default;

  /// Readable when an event has arrived for this world.
  virtual int descriptor() const = 0;
  /// The time of the next `handle_events` without an event.
  virtual control::Deadline deadline() const = 0;
  /// Handles all events. Without events, it costs little.
  virtual void handle_events() = 0;
  /// Releases and ends its ranks. The second call gives them no time to leave. If all have ended, stops the search for
  /// the functions in which they crashed.
  virtual void interrupt(const std::string& why) = 0;
  virtual bool is_over() const = 0;
  /// The caller calls this once, when the world is over.
  virtual WorldOutcome outcome() = 0;
};

/// Starts the ranks. If there is no room for the world's memory, prints that, and puts this memory into `directory`.
/// Sets the nonce and the directories in `plan`, and writes it to `directory`. With `launch.gpus`, the world adds the
/// variables of the ranks' GPUs to `plan` before the ranks start, and writes it again. Borrows `plan`, `directory` and
/// `launch`. Throws CommandError if the world's files cannot be made.
std::unique_ptr<RunningWorld> start_world(protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                                          const WorldLaunch& launch, std::vector<LiveView> views);

}  // namespace shardproof::launcher
