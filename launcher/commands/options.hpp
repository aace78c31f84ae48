// The options of each subcommand, one struct per subcommand. The command line parser fills them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/commands/play.hpp"
#include "launcher/explore/exploration.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/run/demands.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/run/run.hpp"
#include "launcher/terminal/terminal.hpp"

namespace shardproof::launcher {

struct RunOptions {
  PlanOptions plan;
  std::string profile;  ///< Empty: the worker's first.
  std::optional<std::uint64_t> seed;
  std::filesystem::path worker;  ///< Empty: the worker next to the launcher.
  OutputOptions out;  ///< Empty: a new directory under shardproof-out/.
  DemandOptions demands;
  Persistence persistence;
  Attention attention{.failures = true};
  bool is_placed = false;  ///< The user chose a device or a fabric.
  /// The error in the options, unless the report of `rerun_failed` places ranks elsewhere.
  std::string misplaced;
  std::filesystem::path rerun_failed;  ///< A report or run directory. Empty: run the cases that filters select.
  TerminalOptions terminal;
};

struct ListOptions {
  std::vector<std::string> filters;
  std::vector<int> ranks;  ///< World sizes. Empty: all.
  std::string subject;  ///< Empty: the worker's first.
  std::string profile;  ///< Empty: all cases.
  std::filesystem::path worker;
  bool json = false;
  bool seeds = false;  ///< Show which seed test became which cases.
  bool clauses = false;  ///< Show each clause's cases and faults.
  bool profiles = false;  ///< Show what each profile is for.
};

struct FaultsOptions {
  PlanOptions plan;
  std::string profile;  ///< Empty: the worker's first.
  std::filesystem::path waivers;  ///< Waivers of cases that do not pass without a fault. Empty: no waivers.
  std::filesystem::path worker;
  OutputOptions out;  ///< Empty: the command keeps no output.
  bool json = false;
  TerminalOptions terminal;
};

struct MergeOptions {
  std::filesystem::path directory;
  /// The worker to ask for the cases if the run directory does not have them. Empty: no worker.
  std::filesystem::path worker;
  DemandOptions demands;  ///< The given demands replace the run's own.
  TerminalOptions terminal;
};

struct DiffOptions {
  std::filesystem::path before, after;
  bool json = false;
  ColorWhen color = ColorWhen::automatic;
};

struct StableOptions {
  std::filesystem::path report;
};

struct DoctorOptions {
  std::filesystem::path worker;  ///< empty: the worker next to the launcher
  std::filesystem::path backend;  ///< empty: the backend that was built with the launcher
  ColorWhen color = ColorWhen::automatic;
};

struct ExplainOptions {
  std::filesystem::path directory;
};

using Options = std::variant<RunOptions, ListOptions, FaultsOptions, MergeOptions, DiffOptions, DoctorOptions,
                             ExplainOptions, PlayOptions, ExploreOptions, StableOptions>;

}  // namespace shardproof::launcher
