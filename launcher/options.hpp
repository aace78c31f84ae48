// What the command line says, one struct per subcommand.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/plan.hpp"

namespace shardproof::launcher {

enum class ColorWhen : std::uint8_t { automatic, always, never };

struct TerminalOptions {
  ColorWhen color = ColorWhen::automatic;
  bool quiet = false;
  bool verbose = false;
};

/// What a run must show beyond verdicts, and which failures are known.
struct DemandOptions {
  std::optional<std::size_t> max_skips, max_waivers;
  std::vector<std::string> require;  ///< clauses
  std::filesystem::path waivers;     ///< empty for none
};

struct RunOptions {
  PlanOptions plan;
  std::string profile;  ///< empty for the worker's first
  std::optional<std::uint64_t> seed;
  std::filesystem::path worker;  ///< empty for the one beside the launcher
  std::filesystem::path out;     ///< empty for a new one under shardproof-out/
  DemandOptions demands;
  Persistence persistence;
  Attention attention;
  std::filesystem::path rerun_failed;  ///< a report or run directory; empty to run what the filters select
  TerminalOptions terminal;
};

struct ListOptions {
  std::vector<std::string> filters;
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
  std::filesystem::path worker;
  std::filesystem::path out;
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
  int ranks = 2;
  std::string subject;  ///< empty for the worker's first
  std::string fault;
  std::filesystem::path worker;
  std::filesystem::path out;    ///< empty to keep nothing
  std::filesystem::path trace;  ///< a file for Perfetto; empty for none
  std::optional<std::chrono::milliseconds> timeout;
  bool json = false;
  TerminalOptions terminal;
};

struct StableOptions {
  std::filesystem::path report;
};

struct DoctorOptions {
  ColorWhen color = ColorWhen::automatic;
};

struct ExplainOptions {
  std::filesystem::path directory;
};

using Options = std::variant<RunOptions, ListOptions, FaultsOptions, MergeOptions, DiffOptions, DoctorOptions, ExplainOptions, PlayOptions,
                             StableOptions>;

}  // namespace shardproof::launcher
