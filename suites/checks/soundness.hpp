// The checks that every right run must pass, for every model and every kind of engine. They check the communication,
// its order, races and leaked memory. The clause of each check comes from the kind of engine (kind.hpp), or from a
// clause of the case that asks about the same (clauses.hpp). These files have no scenarios of a suite.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"
#include "suites/checks/kind.hpp"

namespace shardproof::suites {

/// The collectives that a plan requires of every engine, by iteration, among groups of several ranks. Each forward
/// gathers each group, and each backward reduces it. A backward gathers a group again if its parameters were freed in
/// between.
std::vector<Communication> planned(const Scenario& scenario, int world);

/// Fails if an iteration communicates less than the plan requires. Such a run may be fast and free of races, but proves
/// nothing.
void check_plan_is_communicated(Rank& rank, const Run& run);

/// Fails unless every iteration communicates exactly what the plan requires, as PyTorch's engine does.
void check_nothing_else_is_communicated(Rank& rank, const Run& run);

/// Fails if an iteration issues more or fewer reductions than the plan requires. The number of all-gathers does not
/// matter.
void check_reductions(Rank& rank, const Run& run);

/// Fails if collectives of a kind are issued before, between or after iterations. For cases that count them by
/// iteration.
void check_all_in_iterations(const Run& run, CollectiveKind kind);

/// One assertion: an iteration, or the first such call in it, issues `expected` collectives of this kind. A failure
/// names their groups. The case chooses the clause.
void check_count(const Iteration& iteration, CollectiveKind kind, std::size_t expected);
void check_count(const Iteration& iteration, CollectiveKind kind, ActionKind call, std::size_t expected);

/// All iterations of a run. Fails unless the run has three or more. An engine may be right once and wrong later. So a
/// case that checks times, orders, counts or memory must check each iteration.
std::vector<Iteration> steady_iterations(const Run& run);

/// The number of times that the host waited for an event or a stream in an iteration.
std::size_t host_waits(const Iteration& iteration);

/// Fails for a race. Reports one race for each broken clause and each missing wait.
void check_no_race(const Rank& rank, const Run& run);

/// Fails unless all ranks have issued the same collectives, for the same groups of parameters, in the same order.
void check_same_order(Rank& rank, const Run& run);

/// Fails if a group is gathered while its parameters are whole, or are being gathered already.
void check_nothing_gathered_twice(const Rank& rank, const Run& run);

/// Fails if a backward leaves a gathered buffer, a whole parameter of a group, a whole gradient or an operand of a
/// reduction. `backward` counts the backwards of the iteration, from 1.
void check_nothing_is_left(const Rank& rank, const Run& run, int iteration, int backward = 1);

/// Checks after each call which parameters are whole, as far as this is known for the scenario.
void check_memory(Rank& rank, const Run& run);

/// Fails if the destroyed engine has left memory.
void check_freed_memory(const Rank& rank, const Run& run);

/// Checks the rules for a run of any scenario: no race, one order on all ranks, and no repeated gather.
void check_sound(Rank& rank, const Run& run);

}  // namespace shardproof::suites
