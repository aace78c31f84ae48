// What every right run owes, whatever it trains: what was communicated, in which order, without races, and that nothing is left. No suite's
// own scenarios or clauses here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// How many collectives there are, or must be.
struct Communication {
  std::size_t all_gathers = 0, reduce_scatters = 0;
};

/// What a plan asks of every engine: in each forward a gather of each group, in each backward a reduction of it, and a second gather where
/// its parameters were freed in between. Nothing on one rank.
Communication planned(const scenario::Scenario& scenario, int world);

/// Fails when less was communicated than the plan asks for: such a run may be fast and free of races, and proves nothing.
void check_plan_is_communicated(Rank& rank, const scenario::Run& run);

/// Fails unless exactly what the plan asks for was communicated, as by the model engine.
void check_nothing_else_is_communicated(Rank& rank, const scenario::Run& run);

/// Fails when there is a race, and says the first few in words.
void check_no_race(const Rank& rank, const scenario::Run& run);

/// The collectives between two marks, in the order in which the host issued them.
std::vector<fact::Collective> collectives_between(const scenario::Run& run, const std::string& from, const std::string& to);

/// Those of an iteration's call.
std::vector<fact::Collective> collectives_in(const scenario::Run& run, int iteration, scenario::ActionKind call);
/// How many of a kind there are among them.
std::size_t count_in(const scenario::Run& run, CollectiveKind kind, int iteration, scenario::ActionKind call);

/// Fails unless all ranks have issued the same collectives, for the same groups of parameters, in the same order.
void check_same_order(Rank& rank, const scenario::Run& run);

/// Fails when a group is gathered while its parameters are whole, or are being gathered already.
void check_nothing_gathered_twice(const scenario::Run& run);

/// Fails when a backward leaves a gathered buffer, a whole parameter of a group, a whole gradient or an operand of a reduction.
/// `backward` counts those of the iteration, from 1.
void check_nothing_is_left(const scenario::Run& run, int iteration, int backward = 1);

/// No race, one order, nothing twice: what a run of any scenario owes.
void check_sound(Rank& rank, const scenario::Run& run);

}  // namespace shardproof::suites
