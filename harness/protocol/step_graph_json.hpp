// The JSON form of compiled passes. An engine gives passes in this form through the C interface, and `shardproof play`
// passes them on.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/step_graph.hpp"

namespace shardproof {

/// `{pass, values: [{name, kind, dtype, shape}],
///   nodes: [{kind, operation?, label, inputs, outputs, divisor?, op?, group?}]}`. A key is left out where the node
///   does not
/// have it.
void to_json(nlohmann::ordered_json& json, const StepGraph& graph);
/// Refuses unknown keys. Throws std::invalid_argument, which names the place, such as
/// `compiled pass, node 3: "inputs"`. The graph may still be malformed.
void from_json(const nlohmann::ordered_json& json, StepGraph& graph);

/// The passes of one step as a JSON text: an array.
std::string write_compiled_plan(const std::vector<StepGraph>& graphs);
/// Throws std::invalid_argument, which names the place, also for a text that is not JSON.
std::vector<StepGraph> read_compiled_plan(std::string_view text);

}  // namespace shardproof
