// A rank's view of its world while a case runs: its index, its peers, the case and the report. Bodies of cases use it.
// Its state is in its World, not in globals.
//
// The room `world` has what a rank needs to take part in a world. Scenarios, devices and vendor libraries may not
// enter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/fabric/group.hpp"
#include "harness/protocol/feature.hpp"
#include "harness/protocol/placement.hpp"
#include "harness/protocol/trace.hpp"

namespace shardproof::world {
class World;
}

namespace shardproof {

/// A scope of clauses. While it lives, a failed assertion of its rank names these clauses instead of the case's
/// clauses. Scopes nest, and the innermost one counts. An exception that leaves the body has left all scopes, so it
/// names the case's clauses.
class [[nodiscard]] ClauseScope {
 public:
  ~ClauseScope();
  ClauseScope(const ClauseScope&) = delete;
  ClauseScope& operator=(const ClauseScope&) = delete;

 private:
  friend class Rank;
  ClauseScope(world::World& world, std::vector<std::string> clauses);
  world::World* world_;
};

class Rank {
 public:
  int index() const;
  Group& world();
  /// The hosts of the world, and the ranks on each. It is the same on all ranks.
  const Placement& placement() const;
  int hosts() const { return static_cast<int>(placement().hosts().size()); }
  /// This rank's place among the ranks of its host, from 0.
  int local_rank() const { return placement().local_rank(index()); }

  /// A parameter of the case, as bound in the case's id. Throws std::out_of_range with the name.
  const std::string& param(std::string_view name) const;
  template <class T> T param(std::string_view name) const;  ///< std::string, bool, int, double
  /// A parameter that only some cases of a declaration have. nullptr: this case does not have it.
  const std::string* find_param(std::string_view name) const;
  /// The kind of engine that the case plays on. Throws std::logic_error if the case names no kind.
  const std::string& engine() const;

  /// The clauses that the case cites.
  const std::vector<std::string>& clauses() const;
  /// Judges the following assertions by these clauses, up to the end of the scope:
  /// `const auto judged = rank.under("OVL-15");` An empty list changes nothing.
  template <class... Ids> ClauseScope under(const char* first, Ids... others) const {
    return under(std::vector<std::string>{first, others...});
  }
  ClauseScope under(std::vector<std::string> clauses) const;

  /// Puts a number into the report, e.g. ("forward_ns", 85'000'000, "ns"). All ranks must give the same number.
  /// Otherwise the report says that the ranks disagree on the case. Only clock times on a real device ("us", "ms", "s")
  /// and their ratios ("x") may differ between ranks and between runs. For these the report shows the slowest rank's
  /// number.
  void measure(std::string_view name, double value, std::string_view unit);
  /// Virtual time, which is exact on every device.
  void measure_ns(std::string_view name, Nanoseconds value) { measure(name, static_cast<double>(value), "ns"); }

  /// Declares the features and ingredients of a scenario that the case plays together. A report counts the pairs.
  void combines(std::vector<std::string> features);

  /// Why the subject cannot play a scenario that needs these features in addition to the case's features: it does not
  /// claim some of them. Empty: it can. For cases that learn their needs only when they run.
  std::string lacking(std::span<const Feature> needs) const;

  /// Ends the case for every rank as skipped.
  [[noreturn]] void skip(std::string_view reason);

  /// One seed for all ranks, different in every case. Failures print it.
  std::uint64_t seed() const;

  /// For functions that use what the program added to the rank, such as `play`.
  world::World& membership() const { return *world_; }

 private:
  friend class world::World;
  explicit Rank(world::World& world) : world_(&world) {}
  world::World* world_;
};

template <> std::string Rank::param<std::string>(std::string_view name) const;
template <> bool Rank::param<bool>(std::string_view name) const;
template <> int Rank::param<int>(std::string_view name) const;
template <> double Rank::param<double>(std::string_view name) const;

}  // namespace shardproof
