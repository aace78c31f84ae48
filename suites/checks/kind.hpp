// The interface of the facts about a kind of engine that checks need. Each kind has its own files in this folder. The
// neutral checks find the kind by the plan, and do not include the header of a kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// The number of collectives that a run issues, or must issue.
struct Communication {
  std::size_t all_gathers = 0, reduce_scatters = 0, all_reduces = 0;
  friend bool operator==(const Communication&, const Communication&) = default;
};

/// The precision with which `Kind::planned` counts the collectives of a scenario.
enum class Plans : std::uint8_t {
  exactly,  ///< Each right engine issues exactly these collectives.
  least,  ///< Each right engine issues these reductions, and these gathers or more. Further gathers may be useless.
  nothing,  ///< The scenario has calls or modules whose collectives cannot be counted.
};

/// The memory that a check judges.
enum class MemoryCheck : std::uint8_t {
  nothing_left,  ///< all memory after backwards, and all except whole parameters after other calls
  whole_after_forward,  ///< whole parameters after calls other than backwards
};

/// The clauses that judge every run on a kind of engine, in every case.
struct SoundnessClauses {
  std::string_view same_order;  ///< Ranks issue the same collectives in the same order.
  std::string_view nothing_twice;  ///< The engine gathers no parameters that are whole already.
  std::string_view nothing_left;  ///< The engine keeps no memory that the plan does not keep.
  std::string_view freed_memory;  ///< A destroyed engine leaves no memory.
  std::string_view whole_after_forward;  ///< After a forward, exactly the parameters that the plan keeps are whole.
  std::string_view communicates;  ///< The engine makes all gathers and reductions of the plan.
  std::string_view no_other_gather;  ///< The engine makes no needless gathers.
  std::string_view no_other_reduction;  ///< The engine makes no reductions that the plan excludes.
};

/// A plan by which a single rank can train any model, in f32.
Plan plan_of_one_rank();

class Kind {
 public:
  virtual ~Kind() = default;

  /// The collectives that a plan requires of every engine, by iteration.
  virtual std::vector<Communication> planned(const Scenario& scenario, int world) const = 0;
  virtual Plans plans(const Scenario& scenario, int world) const = 0;
  /// Whether ranks agree on something by this collective. No plan requires it, and each engine chooses its number.
  virtual bool is_agreement(const fact::Collective& call) const = 0;
  /// The number of ranks that hold each element of a parameter that ranks reduce.
  virtual int holders(const Plan& plan, const std::string& parameter, int world) const = 0;
  /// A plan by which a single rank computes the same as each rank by this plan.
  virtual Plan of_one_rank(const Plan& /*plan*/) const { return plan_of_one_rank(); }
  /// Whether a switch may leave work to a backward that does not reach all parameters of that work. Then the script is
  /// wrong, and not the engine.
  virtual bool may_leave_work(const Scenario& /*scenario*/) const { return false; }
  virtual SoundnessClauses clauses() const = 0;
  /// The clause that the race breaks.
  virtual std::string_view ordering_clause(const Run& run, const trace::Race& race) const = 0;
  virtual void check_nothing_gathered_twice(const Run& run) const = 0;
  virtual void check_nothing_is_left(const Run& run, int iteration, int backward) const = 0;
  /// Checks the memory that is alive after each call, as far as this is known for the scenario.
  virtual void check_memory(const Run& run, int world, MemoryCheck check) const = 0;
};

/// The collectives of an iteration, or of a whole run, without agreements.
Communication issued(const Kind& kind, const Iteration& iteration);
Communication issued(const Kind& kind, const Run& run);

/// The kind of the plan's engine section. Throws std::invalid_argument for a kind without checks.
const Kind& kind_of(const Plan& plan);

// One function for each kind.
const Kind& fully_shard_checks();
const Kind& flat_shard_checks();
const Kind& replicate_checks();

}  // namespace shardproof::suites
