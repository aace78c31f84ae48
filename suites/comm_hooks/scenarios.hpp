// Scenarios of the comm_hooks suite: the network of the seed, with hooks. `net` is two layers, wrapped or not, and
// `out` is a layer of the root.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/world/rank.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/own_gradients.hpp"

namespace shardproof::comm_hooks {

inline constexpr int iterations = 4;
inline constexpr std::int64_t state = 1234;

using suites::NamedGradient;
using suites::strategy;

/// Iterations of forward, backward, capture and zero_grad. No step moves the parameters, so all values are exact.
/// Inputs differ per rank and iteration. `wrapping` is whether `net` is its own unit. Sizes are odd, so most worlds
/// pad. Tensors are kept.
Scenario hooked_net(ShardStrategy strategy, bool wrapping);
/// The units of that plan, in the order in which a backward reduces them.
std::vector<std::string> units(bool wrapping);

/// Puts calls before all others, in their own iteration.
Scenario with_calls_first(Scenario scenario, std::vector<Action> calls);
/// Puts a call between forward and backward of the third iteration of `hooked_net`.
Scenario with_call_in_third_iteration(Scenario scenario, Action call);
Action registration(HookKind kind, std::string module = "");
Action refused(Action call);
Action direct(Action call);

/// This rank's own gradients in an iteration of training, from 0, computed by one process.
std::vector<NamedGradient> local_gradients(const Scenario& scenario, int rank_index, int iteration);

}  // namespace shardproof::comm_hooks
