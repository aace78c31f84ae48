// One world from its first process to its last: spawned, watched on descriptors and deadlines alone, ended when one of its ranks is.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/control_page.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/records.hpp"
#include "launcher/signal_watch.hpp"

namespace shardproof::launcher {

/// How ranks are started.
struct WorldLaunch {
  std::filesystem::path worker;
  std::vector<std::string> environment;
  std::chrono::milliseconds joining = joining_limit;
  int debug = -1;              ///< a rank that is to wait for a debugger before its first case; -1: none
  std::vector<int> output_of;  ///< ranks whose output is shown as it comes
  std::function<void(const std::string&)> print;   ///< what must be seen, in whole lines; empty: nowhere
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
  bool began = false;     ///< some rank came to its first case
  bool overran = false;   ///< it was a deadline that ended it
  std::string cut_short;  ///< why the world is not complete
  std::string infrastructure_error;  ///< why ranks could not meet or part, with what the guilty one said last
  int interrupted_by = 0;  ///< a signal to the launcher
  std::chrono::nanoseconds duration{0};
};

/// Runs the world to its end, whatever its ranks do. Gives `plan` its nonce and its directories, and writes it to `directory`.
/// Throws CommandError when the world cannot even be laid out.
WorldOutcome run_world(WorldPlan& plan, const WorldDirectory& directory, const WorldLaunch& launch, SignalWatch& signals,
                       const std::optional<LiveView>& view);

}  // namespace shardproof::launcher
