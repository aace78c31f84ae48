// Random scenarios on two subjects, round after round, and what they play differently made as small as it can be. What is found is written
// when it is found: whoever or whatever ends an exploration, it is kept.
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

#include "launcher/commands/options.hpp"
#include "launcher/explore/contenders.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

/// What a smaller scenario has to show, to show the same: the strongest aspect that differs, and of verdicts, the same ones. What refuses
/// or hangs is stronger than what does more, that than what does it in another order, or computes something else, or takes longer.
struct Kept {
  reports::Aspect aspect = reports::Aspect::totals;
  std::array<reports::Verdict, 2> verdicts{};
  bool both_played = true;
  friend bool operator==(const Kept&, const Kept&) = default;
};

/// Of two that differ. Pure.
Kept kept_of(const SideBySide& both);

/// One difference, and how it was found.
struct FoundDifference {
  std::uint64_t seed = 0;
  int ranks = 1;  ///< that play the smallest scenario
  std::vector<std::string> aspects;  ///< in which the smallest one differs
  std::string kept;  ///< the one that shrinking has kept
  std::size_t steps = 0, plays = 0;  ///< of shrinking
  bool is_smallest = true;  ///< no: somebody or something ended the search for a smaller one
  bool is_steady = true;  ///< no: the smallest did not show it when it was played once more
  std::filesystem::path folder;  ///< below the exploration's own
  std::string text;  ///< what differs, for people
};

struct ExplorationResult {
  std::uint64_t rounds = 0;  ///< scenarios that were played
  std::uint64_t alike = 0, seen_again = 0;  ///< of these: no difference; one that shrinks to what was found before
  std::vector<FoundDifference> differences;
  std::optional<CommandError> ended_by;  ///< before its end: by a signal, or by what went wrong
};

class Exploration {
 public:
  /// Below the place of an exploration: a folder for each difference, by number from 1.
  static constexpr char differences[] = "differences";

  /// All are borrowed. `place` is there. `tell` is called with every difference when it has been written.
  Exploration(const ExploreOptions& options, const std::array<Contender, 2>& contenders, ScenarioSource source, std::filesystem::path place,
              const std::vector<std::string>& argv, SignalWatch& signals, Terminal& terminal,
              std::function<void(const FoundDifference&)> tell);

  /// Until the rounds, the time or the differences that were asked for are there, a signal comes, a worker cannot do its work, or what was
  /// found cannot be written.
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
  const std::function<void(const FoundDifference&)> tell_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::uint64_t next_seed_;
  std::set<std::string> known_;  ///< smallest documents, with their ranks and what they show
  ExplorationResult result_;
};

}  // namespace shardproof::launcher
