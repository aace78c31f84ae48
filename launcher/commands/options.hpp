// What the command line says, one struct per subcommand.
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
  std::filesystem::path directory;  ///< empty: none was asked for
  bool overwrite = false;           ///< an earlier run in it is replaced
};

/// What a run must show beyond verdicts, and which failures are known.
struct DemandOptions {
  std::optional<std::size_t> max_skips, max_waivers;
  std::vector<std::string> require;  ///< clauses
  std::filesystem::path waivers;     ///< empty for none
};

/// What becomes of a run whose worlds are ended by their ranks.
struct Persistence {
  int retries = 0;    ///< how often a case that ended badly is tried again, in a world of such cases
  int max_hangs = 5;  ///< worlds that may be lost to a deadline or a rank that cannot go on: a sick machine does so everywhere
};

/// What somebody wants to see of ranks while they run.
struct Attention {
  int debug = -1;              ///< a rank that waits for a debugger; -1: none
  std::vector<int> output_of;  ///< ranks whose output is shown as it comes
  bool failures = false;  ///< one line for each, when its world has ended and others still run, once the run is long
};

struct RunOptions {
  PlanOptions plan;
  std::string profile;  ///< empty for the worker's first
  std::optional<std::uint64_t> seed;
  std::filesystem::path worker;  ///< empty for the one beside the launcher
  OutputOptions out;             ///< none: a new one under shardproof-out/
  DemandOptions demands;
  Persistence persistence;
  Attention attention{.failures = true};
  bool is_placed = false;              ///< a device or a fabric was given
  std::string misplaced;               ///< what is wrong with options, unless the report of `rerun_failed` places ranks elsewhere
  std::filesystem::path rerun_failed;  ///< a report or run directory; empty to run what the filters select
  TerminalOptions terminal;
};

struct ListOptions {
  std::vector<std::string> filters;
  std::vector<int> ranks;  ///< world sizes; empty for all
  std::string subject;  ///< empty for the worker's first
  std::string profile;  ///< empty for all cases
  std::filesystem::path worker;
  bool json = false;
  bool seeds = false;    ///< which seed test became which cases
  bool clauses = false;  ///< which cases check a clause, which faults break it
  bool profiles = false;  ///< what each is for
};

struct FaultsOptions {
  PlanOptions plan;
  std::string profile;  ///< empty for the worker's first
  std::filesystem::path waivers;  ///< of cases that do not pass without a fault either; empty for none
  std::filesystem::path worker;
  OutputOptions out;  ///< none: nothing is kept
  bool json = false;
  TerminalOptions terminal;
};

struct MergeOptions {
  std::filesystem::path directory;
  std::filesystem::path worker;  ///< asked for the cases when the run directory does not say them; empty for nobody
  DemandOptions demands;  ///< those that are given replace the run's own
  TerminalOptions terminal;
};

struct DiffOptions {
  std::filesystem::path before, after;
  bool json = false;
  ColorWhen color = ColorWhen::automatic;
};

struct PlayOptions {
  std::filesystem::path scenario;
  PlanOptions plan;  ///< of its one world
  std::filesystem::path worker;
  OutputOptions out;            ///< none: nothing is kept
  std::filesystem::path trace;  ///< a file for Perfetto; empty for none
  bool show_plan = false;           ///< print the compiled steps
  std::filesystem::path plan_dot;   ///< a file for Graphviz, of the compiled steps; empty for none
  std::uint64_t ulps = 0;       ///< of two subjects: by how many units in the last place values may differ
  bool json = false;
  TerminalOptions terminal;
};

struct ExploreOptions {
  PlanOptions plan;  ///< of worlds of the sizes in `ranks`; its subject is two
  std::string engine;  ///< the kind that scenarios are for; empty: the first for which this can be
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> rounds;  ///< none: as many as there is time for
  std::optional<std::chrono::milliseconds> time;
  std::vector<std::string> left_out;  ///< of what scenarios may have
  std::uint64_t max_differences = 1;
  std::uint64_t ulps = 0;  ///< by how many units in the last place values may differ
  std::filesystem::path worker;
  OutputOptions out;  ///< none: a new one under shardproof-out/
  bool json = false;
  TerminalOptions terminal;
};

struct StableOptions {
  std::filesystem::path report;
};

struct DoctorOptions {
  std::filesystem::path worker;   ///< empty for the one beside the launcher
  std::filesystem::path backend;  ///< empty for the one that was built with it
  ColorWhen color = ColorWhen::automatic;
};

struct ExplainOptions {
  std::filesystem::path directory;
};

using Options = std::variant<RunOptions, ListOptions, FaultsOptions, MergeOptions, DiffOptions, DoctorOptions, ExplainOptions, PlayOptions,
                             ExploreOptions, StableOptions>;

}  // namespace shardproof::launcher
