// A model of units with odd sizes that run one after the other. Cases use it to check each element and each byte of an
// engine with flat parameters.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/oracles/flat_layout.hpp"
#include "harness/player/run.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::overlap {

/// The units `a` (15, 5 and 10 elements), `b` (2 and 1), `c` (1) and the root (3 and 3), whose layer runs last. Values
/// are small integers. Each of three iterations makes the calls of `body`.
Scenario flat_chain(ShardStrategy strategy, std::vector<Action> body);

/// The dtype that a case's parameter names, such as `bf16`. Empty for `none`.
std::optional<DType> dtype_of(Rank& rank, std::string_view parameter);

/// The gradients that a rank computes by itself in an iteration, by parameter, before any step. They have the dtype of
/// the plan's parameters.
std::vector<std::vector<double>> own_gradients(const Scenario& scenario, int rank, int iteration);

/// An iteration's collectives with their operands, in the order of issue. The functions fail unless each collective has
/// an operand.
struct OnWire {
  fact::Collective call;
  Operand operand;
};
std::vector<OnWire> gathers_on_wire(const Run& run, int iteration);
std::vector<OnWire> reductions_on_wire(const Run& run, int iteration);

}  // namespace shardproof::overlap
