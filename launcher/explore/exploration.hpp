// Plays random scenarios on two subjects, round after round, and makes each difference as small as possible. It writes
// a difference as soon as it finds it, and keeps it however the exploration ends. `explore` runs it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "launcher/explore/contenders.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

/// The options of `explore`.
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

/// The part of a difference that shrinking keeps: its strongest aspect, and for verdicts, the two verdicts. From strong
/// to weak, a difference is:
///   - a refusal or a hang,
///   - more or fewer collectives,
///   - another order,
///   - another compiled step,
///   - another computed value,
///   - another duration.
struct DifferenceSignature {
  reports::Aspect aspect = reports::Aspect::totals;
  std::array<reports::Verdict, 2> verdicts{};
  bool both_played = true;
  friend bool operator==(const DifferenceSignature&, const DifferenceSignature&) = default;
};

/// The part of this difference that shrinking keeps. Pure.
DifferenceSignature signature_of(const SideBySide& both);

/// One difference, and how it was found.
struct FoundDifference {
  std::uint64_t seed = 0;
  int ranks = 1;  ///< Ranks of the smallest scenario.
  std::vector<std::string> aspects;  ///< The aspects in which the smallest scenario differs.
  std::string kept_aspect;  ///< The aspect that shrinking has kept.
  std::size_t steps = 0, plays = 0;  ///< Counts of the shrinking.
  bool is_smallest = true;  ///< False: the search ended early.
  bool is_steady = true;  ///< False: one more play of the smallest scenario did not show it.
  std::filesystem::path folder;  ///< Relative to the exploration's folder.
  std::string text;  ///< The difference, for readers.
};

struct ExplorationResult {
  std::uint64_t rounds = 0;  ///< played scenarios
  /// Of the played scenarios: those without a difference, and those that shrink to a known difference.
  std::uint64_t alike = 0, seen_again = 0;
  std::vector<FoundDifference> differences;
  std::optional<CommandError> ended_by;  ///< a signal or an error that ended it early
};

class Exploration {
 public:
  /// The folder in `place` that has a folder for each difference, numbered from 1.
  static constexpr char differences[] = "differences";

  /// Borrows its reference arguments. `place` has to exist. Calls `report` with each difference after writing it.
  Exploration(const ExploreOptions& options, const std::array<Contender, 2>& contenders, ScenarioSource source,
              std::filesystem::path place, const std::vector<std::string>& argv, SignalWatch& signals,
              Terminal& terminal, std::function<void(const FoundDifference&)> report);

  /// Plays until the first of these events:
  ///   - The requested rounds, time or differences are reached.
  ///   - A signal arrives.
  ///   - A worker fails.
  ///   - A difference cannot be written.
  ExplorationResult run();

 private:
  struct Candidate {
    MadeScenario scenario;
    SideBySide both;
  };

  bool is_over() const;
  void play_batch();
  void take(const Candidate& candidate);
  std::vector<SideBySide> play(std::span<const MadeScenario> scenarios);
  void write(const Candidate& found, const Candidate& smallest, FoundDifference& difference);
  void show_progress(const std::string& doing);

  const ExploreOptions& options_;
  const std::array<Contender, 2>& contenders_;
  const ScenarioSource source_;
  const std::filesystem::path place_;
  const std::vector<std::string>& argv_;
  SignalWatch& signals_;
  Terminal& terminal_;
  const std::function<void(const FoundDifference&)> report_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::uint64_t next_seed_;
  std::set<std::string> known_;  ///< smallest documents with their ranks and kept aspects
  ExplorationResult result_;
};

}  // namespace shardproof::launcher
