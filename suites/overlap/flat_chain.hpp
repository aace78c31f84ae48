// Units of odd sizes that run one after the other, for cases that look at each element and each byte of an engine with flat parameters.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/oracles/flat_layout.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::overlap {

/// The units `a` (15, 5 and 10 elements), `b` (2 and 1), `c` (1) and the root (3 and 3), whose layer runs last. Values are small
/// integers. Each of three iterations makes the calls of `body`.
scenario::Scenario flat_chain(scenario::ShardStrategy strategy, std::vector<scenario::Action> body);

/// The dtype that a case's parameter names, as `bf16`; none for `none`.
std::optional<DType> dtype_of(Rank& rank, std::string_view parameter);

/// The gradients that a rank computes by itself in an iteration, by parameter, before any step. In the dtype of the plan's parameters.
std::vector<std::vector<double>> own_gradients(const scenario::Scenario& scenario, int rank, int iteration);

/// An iteration's operands of collectives of these kinds, with the facts of the collectives, in the order of issue. Fails unless there is
/// an operand for each collective.
struct OnWire {
  fact::Collective call;
  scenario::Operand operand;
};
std::vector<OnWire> gathers_on_wire(const scenario::Run& run, int iteration);
std::vector<OnWire> reductions_on_wire(const scenario::Run& run, int iteration);

}  // namespace shardproof::overlap
