// What every right run owes, whatever it trains, on every kind of engine: what was communicated, in which order, without races, and that
// nothing is left. Each check is judged by its own clause, which its kind of engine names (kind.hpp), or by a clause of the case that asks
// about the same (clauses.hpp). No suite's own scenarios here.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/shardproof.hpp"
#include "suites/checks/kind.hpp"

namespace shardproof::suites {

/// The collectives that a plan asks of every engine, by iteration, among groups of several ranks. Each forward gathers each group, and each
/// backward reduces it. A backward gathers a group again if its parameters were freed in between.
std::vector<Communication> planned(const scenario::Scenario& scenario, int world);

/// Fails when an iteration communicates less than the plan asks for: such a run may be fast and free of races, and proves nothing.
void check_plan_is_communicated(Rank& rank, const scenario::Run& run);

/// Fails unless every iteration communicates exactly what the plan asks for, as the model engine does.
void check_nothing_else_is_communicated(Rank& rank, const scenario::Run& run);

/// Fails if an iteration issues more or fewer reductions than the plan asks for. The all-gathers may be more or fewer.
void check_reductions(Rank& rank, const scenario::Run& run);

/// Fails when collectives of a kind are issued before, between or after iterations. For cases that count them by iteration.
void check_all_in_iterations(const scenario::Run& run, CollectiveKind kind);

/// One assertion: an iteration, or the first such call in it, issues so many collectives of this kind. A failure names their groups. The
/// case says by which clause it is judged.
void check_count(const scenario::Iteration& iteration, CollectiveKind kind, std::size_t expected);
void check_count(const scenario::Iteration& iteration, CollectiveKind kind, scenario::ActionKind call, std::size_t expected);

/// All iterations of a run. Fails unless there are three or more: an engine may be right once and wrong later, so a case that checks times,
/// orders, counts or memory checks each of them.
std::vector<scenario::Iteration> steady_iterations(const scenario::Run& run);

/// How often the host waited for an event or a stream in an iteration.
std::size_t host_waits(const scenario::Iteration& iteration);

/// Fails when there is a race. Says one race for each clause that is broken and each wait that is missing.
void check_no_race(const Rank& rank, const scenario::Run& run);

/// Fails unless all ranks have issued the same collectives, for the same groups of parameters, in the same order.
void check_same_order(Rank& rank, const scenario::Run& run);

/// Fails when a group is gathered while its parameters are whole, or are being gathered already.
void check_nothing_gathered_twice(const Rank& rank, const scenario::Run& run);

/// Fails when a backward leaves a gathered buffer, a whole parameter of a group, a whole gradient or an operand of a reduction.
/// `backward` counts those of the iteration, from 1.
void check_nothing_is_left(const Rank& rank, const scenario::Run& run, int iteration, int backward = 1);

/// Checks after each call what is whole, as far as this is known for the scenario.
void check_memory(Rank& rank, const scenario::Run& run);

/// Fails when the engine has been destroyed and memory of it is left.
void check_freed_memory(const Rank& rank, const scenario::Run& run);

/// No race, one order, nothing twice: what a run of any scenario owes.
void check_sound(Rank& rank, const scenario::Run& run);

}  // namespace shardproof::suites
