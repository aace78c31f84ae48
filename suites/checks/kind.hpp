// What checks must know of a kind of engine. Each kind has its own files here, and the neutral checks look the kind up by the plan. No check
// of another file includes the header of a kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// How many collectives there are, or must be.
struct Communication {
  std::size_t all_gathers = 0, reduce_scatters = 0, all_reduces = 0;
  friend bool operator==(const Communication&, const Communication&) = default;
};

/// How exactly `Kind::planned` counts the collectives of a scenario.
enum class Plans : std::uint8_t {
  exactly,  ///< each right engine issues these
  least,  ///< each right engine issues these reductions, and at least these gathers: it may gather ahead of a module that does not run
  nothing,  ///< the scenario has calls or modules that it cannot count
};

/// What a check of memory judges.
enum class MemoryCheck : std::uint8_t {
  nothing_left,  ///< all memory after backwards, and after other calls all but whole parameters
  whole_after_forward,  ///< whole parameters after calls that are no backwards
};

/// The clauses by which every run on a kind of engine is judged, whatever case plays it.
struct SoundnessClauses {
  std::string_view same_order;  ///< ranks issue the same collectives in the same order
  std::string_view nothing_twice;  ///< nothing is gathered that is there already
  std::string_view nothing_left;  ///< nothing is alive that the plan does not keep
  std::string_view freed_memory;  ///< a destroyed engine leaves no memory
  std::string_view whole_after_forward;  ///< after a forward, what the plan keeps is whole, and nothing else
  std::string_view communicates;  ///< what the plan asks for is gathered and reduced
  std::string_view no_other_gather;  ///< nothing is gathered that nobody needs
  std::string_view no_other_reduction;  ///< nothing is reduced that the plan excludes
};

/// A plan by which one rank alone can train any model, in f32.
scenario::Plan plan_of_one_rank();

class Kind {
 public:
  virtual ~Kind() = default;

  /// The collectives that a plan asks of every engine, by iteration.
  virtual std::vector<Communication> planned(const scenario::Scenario& scenario, int world) const = 0;
  virtual Plans plans(const scenario::Scenario& scenario, int world) const = 0;
  /// In this collective ranks agree on something. No plan asks for it, and how often it comes is the engine's business.
  virtual bool is_agreement(const fact::Collective& call) const = 0;
  /// How many ranks hold each element of a parameter that ranks reduce.
  virtual int holders(const scenario::Plan& plan, const std::string& parameter, int world) const = 0;
  /// A plan by which one rank alone computes what each rank computes by this plan.
  virtual scenario::Plan of_one_rank(const scenario::Plan& /*plan*/) const { return plan_of_one_rank(); }
  /// Whether a switch may leave work to a backward that does not reach all that the work is about. Then the script is wrong, and no engine
  /// is.
  virtual bool may_leave_work(const scenario::Scenario& /*scenario*/) const { return false; }
  virtual SoundnessClauses clauses() const = 0;
  /// The clause that the race breaks.
  virtual std::string_view ordering_clause(const scenario::Run& run, const trace::Race& race) const = 0;
  virtual void check_nothing_gathered_twice(const scenario::Run& run) const = 0;
  virtual void check_nothing_is_left(const scenario::Run& run, int iteration, int backward) const = 0;
  /// Checks what is alive after each call, as far as this is known for the scenario.
  virtual void check_memory(const scenario::Run& run, int world, MemoryCheck check) const = 0;
};

/// The collectives of an iteration, or of all of a run, without agreements.
Communication issued(const Kind& kind, const scenario::Iteration& iteration);
Communication issued(const Kind& kind, const scenario::Run& run);

/// The kind of the plan's engine section. Throws std::invalid_argument for a kind without checks.
const Kind& kind_of(const scenario::Plan& plan);

// One for each kind.
const Kind& fully_shard_checks();
const Kind& flat_shard_checks();
const Kind& replicate_checks();

}  // namespace shardproof::suites
