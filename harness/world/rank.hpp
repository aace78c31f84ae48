// A rank's view of its world while a case runs: who it is, whom it can talk to, what it may say. Its state hangs here, not on globals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/platform.hpp"
#include "harness/fabric/group.hpp"
#include "harness/player/holding.hpp"
#include "harness/player/run.hpp"
#include "harness/protocol/feature.hpp"

namespace shardproof {

class World;

/// A scope of clauses: while it lives, a failed assertion of its rank names these clauses instead of the case's. Scopes nest, and the
/// innermost one counts. An exception that leaves the body has left all scopes, and names the case's clauses.
class [[nodiscard]] ClauseScope {
 public:
  ~ClauseScope();
  ClauseScope(const ClauseScope&) = delete;
  ClauseScope& operator=(const ClauseScope&) = delete;

 private:
  friend class Rank;
  ClauseScope(World& world, std::vector<std::string> clauses);
  World* world_;
};

class Rank {
 public:
  int index() const;
  Group& world();

  /// A parameter of the case, as bound in its id. Throws std::out_of_range naming it.
  const std::string& param(std::string_view name) const;
  template <class T> T param(std::string_view name) const;  ///< std::string, bool, int, double
  /// A parameter that not every case of a declaration has; nullptr: this case does not have it.
  const std::string* find_param(std::string_view name) const;
  /// The kind of engine that the case plays on. Throws std::logic_error where the case names none.
  const std::string& engine() const;

  /// The clauses that the case cites.
  const std::vector<std::string>& clauses() const;
  /// Judges what follows by these clauses, up to the end of the scope: `const auto judged = rank.under("OVL-15");` An empty list changes
  /// nothing.
  template <class... Ids> ClauseScope under(const char* first, Ids... others) const {
    return under(std::vector<std::string>{first, others...});
  }
  ClauseScope under(std::vector<std::string> clauses) const;

  /// Puts a number into the report, e.g. ("forward_ns", 85'000'000, "ns"). All ranks must give the same number, or the case counts as one
  /// on which ranks disagree. Only clock times on a real device ("us", "ms", "s") and their ratios ("x") may differ between ranks and between
  /// runs. The report has that of the slowest rank.
  void measure(std::string_view name, double value, std::string_view unit);
  /// Virtual time, which is exact on every device.
  void measure_ns(std::string_view name, Nanoseconds value) { measure(name, static_cast<double>(value), "ns"); }

  /// Says which features and ingredients of a scenario the case plays together. A report counts the pairs.
  void combines(std::vector<std::string> features);

  /// Why the subject cannot play what needs these features, besides those of the case: it does not claim some of them. Empty: it can. For
  /// cases that learn only when they run what they need.
  std::string lacking(std::span<const Feature> needs) const;

  /// The document that the case is to play instead of what it draws; empty: the case draws.
  std::filesystem::path given_scenario() const;

  /// Ends the case for every rank as skipped.
  [[noreturn]] void skip(std::string_view reason);

  /// One seed for all ranks, unlike in every case; printed with failures.
  std::uint64_t seed() const;

  /// A fresh device with the collectives of the world on it, of the kind that this run asked for: simulated, or this rank's GPU. Collective
  /// over the world.
  std::unique_ptr<Platform> platform(const CostModel& costs = {});

  /// Plays the scenario on the subject under test. A subject that leaves memory behind makes the case fail at its end.
  scenario::Run play(const scenario::Scenario& scenario);
  /// Plays it, and once more for each hold, with one piece held back, to see whether another passes it. Throws std::out_of_range naming a
  /// piece that is not in the scenario.
  scenario::HeldRun play(const scenario::Scenario& scenario, const std::vector<scenario::Hold>& holds);

 private:
  friend class World;
  explicit Rank(World& world) : world_(&world) {}
  std::unique_ptr<Platform> stage(const scenario::Scenario& scenario);
  World* world_;
};

template <> std::string Rank::param<std::string>(std::string_view name) const;
template <> bool Rank::param<bool>(std::string_view name) const;
template <> int Rank::param<int>(std::string_view name) const;
template <> double Rank::param<double>(std::string_view name) const;

}  // namespace shardproof
