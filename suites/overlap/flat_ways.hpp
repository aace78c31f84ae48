// A model whose forwards take different ways through its units, for scripts on engines with flat parameters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/shardproof.hpp"
#include "suites/checks/comparison.hpp"

namespace shardproof::overlap {

/// A choice `way` between children, and `end`, which computes nothing:
///
/// * `one` runs the units `a` and `b`, with a ReLU of the root between them.
/// * `two` runs the units `c` and `d`.
/// * `three` runs only `b`.
/// * `round` runs `a`, `b` and `a` again.
///
/// Each unit is a linear layer of 4 by 4. The root is wrapped and has no own parameters. Inputs are one-hot, and
/// weights are small. The script has no iterations yet.
Scenario flat_ways(ShardStrategy strategy);
/// Far above the rounding of a few steps of this model, and far below one gradient.
inline constexpr suites::Tolerance ways_tolerance{.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-3};

/// The path of a unit: `a`, `b`, `c` or `d`.
std::string unit_of_ways(std::string_view unit);

Action forward_by(std::string way);
/// A forward that fails in the module at this path.
Action failing_by(std::string way, std::string module);
Action synced(bool value);

/// One iteration: these calls, then step, capture and zero_grad.
std::vector<Action> trained_by(std::vector<Action> calls);

/// The collectives and work that the host issued in an iteration, in its order: `all_gather way.one.a`, `forward
/// way.one.a`, …. Excludes work that is neither forward nor backward.
std::vector<std::string> issued_in(const Iteration& iteration);
/// The same between two marks of the iteration, both included.
std::vector<std::string> issued_in(const Iteration& iteration, std::string_view from_mark, std::string_view to_mark);

}  // namespace shardproof::overlap
