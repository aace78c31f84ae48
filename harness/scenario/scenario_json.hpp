// The scenario as a JSON document: what `play` reads, what a failing case leaves behind. Its JSON Schema lies in schema/scenario.schema.json,
// examples and an explanation of every key in docs/scenarios.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Without what is as it would be anyway; from_json gives the same scenario back.
void to_json(nlohmann::ordered_json& json, const Scenario& scenario);

/// Throws std::invalid_argument that names the place in the document and what was expected there; also what `validate` says of the whole.
void from_json(const nlohmann::ordered_json& json, Scenario& scenario);

/// The same from text that may be no JSON at all, or name a key twice. With a size of the world, a call for a rank that the world does not
/// have is refused first: other ranks may lack a call only because of it.
Scenario parse_scenario(std::string_view text, std::optional<int> world_size = std::nullopt);

}  // namespace shardproof::scenario
