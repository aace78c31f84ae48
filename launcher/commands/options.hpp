// The options of each subcommand, one struct per subcommand. The command line parser fills them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/run/plan.hpp"

namespace shardproof::launcher {

enum class ColorWhen : std::uint8_t { automatic, always, never };

struct TerminalOptions {
  ColorWhen color = ColorWhen::automatic;
  bool quiet = false;
  bool verbose = false;
};

/// Where a command writes.
struct OutputOptions {
  std::filesystem::path directory;  ///< empty: the user named no directory
  bool overwrite = false;           ///< replace an earlier run in it
};

/// The user's demands on a run beyond verdicts, and the known failures.
struct DemandOptions {
  std::optional<std::size_t> max_skips, max_waivers;
  std::vector<std::string> require;  ///< clauses
  std::filesystem::path waivers;     ///< empty: no waivers
};

/// How a run goes on after ranks ended a world.
struct Persistence {
  int retries = 0;    ///< How often to try a case again that ended badly, in a world of such cases.
  /// The number of worlds that a run may lose to a deadline, or to a rank that cannot go on. A sick machine loses every
  /// world.
  int max_hangs = 5;
};

/// Information about running ranks that the user asked for.
struct Attention {
  int debug = -1;  ///< This rank waits for a debugger. -1: no rank.
  std::vector<int> output_of;  ///< Ranks whose output is shown while they run.
  /// One line for each failure, when its world has ended. Only in a long run, while other worlds still run.
  bool failures = false;
};

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

struct PlayOptions {
  std::filesystem::path scenario;
  PlanOptions plan;  ///< for its one world
  std::filesystem::path worker;
  OutputOptions out;  ///< Empty: the command keeps no output.
  std::filesystem::path trace;  ///< A file for Perfetto. Empty: no file.
  bool show_plan = false;  ///< Print the compiled steps.
  std::filesystem::path plan_dot;  ///< A file for Graphviz with the compiled steps. Empty: no file.
  std::uint64_t ulps = 0;  ///< With two subjects: values may differ by so many units in the last place.
  bool json = false;
  TerminalOptions terminal;
};

struct ExploreOptions {
  PlanOptions plan;  ///< Its worlds have the sizes in `ranks`. Its subject names two subjects.
  std::string engine;  ///< The kind of engine for scenarios. Empty: the first kind for which both subjects can play.
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> rounds;  ///< empty: until the time is over
  std::optional<std::chrono::milliseconds> time;
  std::vector<std::string> left_out;  ///< parts that scenarios do not have
  std::uint64_t max_differences = 1;
  std::uint64_t ulps = 0;  ///< values may differ by so many units in the last place
  std::filesystem::path worker;
  OutputOptions out;  ///< empty: a new directory under shardproof-out/
  bool json = false;
  TerminalOptions terminal;
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
