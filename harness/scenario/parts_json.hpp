// The four parts of a scenario as JSON, each in its own file. `scenario_json` puts them together. A subject in another
// language gets them one by one. For .cpp files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/scenario/document.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// The version of the document that is written. Version 1, without the key `version`, is read as well.
inline constexpr int scenario_version = 2;

/// The largest number of features in a document: a typing error must not take all memory.
inline constexpr std::int64_t most_features = 1 << 20;

nlohmann::ordered_json write_model(const Model& model);
nlohmann::ordered_json write_plan(const Plan& plan);
nlohmann::ordered_json write_script(const Script& script);
nlohmann::ordered_json write_costs(const CostModel& costs, const DeviceOptions& device);
nlohmann::ordered_json write_action(const Action& action);
nlohmann::ordered_json write_mixed_precision(const MixedPrecision& mixed);

Model read_model(const Node& node);
Plan read_plan(const Node& node);
/// Reads the plan of a document of version 1: `engine` names the kind, and the keys of its section are the plan's own.
Plan read_plan_of_version_1(const Node& node);
/// The places of a script's calls in its document, by segment and by call. A call of a block of micro-batches is in the
/// document once, and in the script once for each micro-batch.
using CallPlaces = std::vector<std::vector<std::string>>;
Script read_script(const Node& node, CallPlaces& places);
void read_costs(const Node& node, CostModel& costs, DeviceOptions& device);
Action read_action(const Node& node);
MixedPrecision read_mixed_precision(const Node& node);

/// The divisor of a formula: values are integers over this.
int read_divisor(const Node& node);

}  // namespace shardproof::scenario
