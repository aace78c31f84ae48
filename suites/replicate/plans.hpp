// The reductions of a compiled backward in three forms: the engine's plan, the executed calls, and the result of the
// bucket rule.
#pragma once

#include <string>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::replicate {

/// One line for each step, for example `divide fc4.bias + fc4.weight by 2`, `all_reduce bucket 0: fc4.bias + fc4.weight
/// = 20 f32 (sum of 0,1)` or `wait bucket 0: fc4.bias`. `a + b` are in one tensor, `a, b` in one call.
using PlanLines = std::vector<std::string>;

/// The part of a compiled backward that reduces gradients: divisions, concatenations, all-reduces, waits, splits, casts
/// and copies, in order. Excludes other computation. Consecutive results are sorted.
PlanLines reduction_plan(const StepGraph& backward);
/// The order in which the gradients of chains of linear modules become ready in a compiled backward.
std::vector<std::string> compiled_ready_order(const Scenario& scenario);
/// The part that reduces gradients, by the rule of PyTorch's compiler, for chains of linear modules. With `existed`,
/// gradients exist already, so results are copied.
PlanLines expected_plan(const Scenario& scenario, int world, bool existed);

/// The `compile` section of a plan from the case's parameters: `fusion` alone, `region` alone, or both.
CompilePlan fused_by(Rank& rank);
CompiledRegion region_by(Rank& rank);
CompilePlan compile_plan(Rank& rank);

/// The all-reduces of a graph: `bucket 0: 20 f32 (sum of 0,1)`, one line for each operand.
PlanLines planned_reductions(const StepGraph& graph);
/// The same for executed all-reduces.
PlanLines executed_reductions(const std::vector<fact::Collective>& calls);
/// Fails unless each backward of a run issued the all-reduces of the engine's plan. The same holds for the forwards
/// before it if they were compiled.
void check_ran_as_planned(const Rank& rank, const Run& run);

/// The same scenario without a compiled step.
Scenario eager(Scenario scenario);

/// The backward of a compiled step. Fails if the step has none.
const StepGraph& backward_of(const CompiledStep& step);

}  // namespace shardproof::replicate
