// The scenarios that the overlap suite plays, and how it states that a run has no race. What the numbers come from: clauses.md.
#pragma once

#include <chrono>
#include <cstddef>

#include "harness/scenario/builder.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::overlap {

using namespace std::chrono_literals;

/// The stack of the seed test.
scenario::SleepingStack seed_stack();

struct PostOptim {
  std::chrono::nanoseconds sleep_forward = 25ms, sleep_backward = 50ms, all_gather = 10ms;
  int iterations = 5;
  bool event = true;
};

/// A sleeping layer that is not sharded, then a small sharded one that is not resharded; AdamW. Reduce-scatters cost nothing.
scenario::Scenario post_optim(const PostOptim& how);

/// Two linear layers with bias and a ReLU between them, uneven for most worlds; integer values, so that sums are exact.
scenario::Scenario small_mlp(scenario::Optimizer optimizer, bool reshard_after_forward, int iterations);

/// Three blocks of two linear layers, as PyTorch's traces were recorded with.
scenario::Scenario traced_blocks(scenario::ReshardAfterForward reshard, bool post_optim_event);

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

}  // namespace shardproof::overlap
