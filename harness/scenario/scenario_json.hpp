// Reads and writes a scenario as a JSON document. `play` reads such documents, and a failing case writes them. The JSON
// Schema is schema/scenario.schema.json. docs/scenarios.md has examples and explains every key.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "harness/base/json_position.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof {

/// Leaves out values that are the default. from_json gives the same scenario back.
void to_json(nlohmann::ordered_json& json, const Scenario& scenario);

/// Throws std::invalid_argument with the place in the document and what was expected there. It also throws the errors
/// of `validate`.
void from_json(const nlohmann::ordered_json& json, Scenario& scenario);

/// The same from a text, which may be invalid JSON, or name a key twice. The error is a scenario::DocumentError with
/// its position in the text. With `world_size`, it also refuses a document that a world of this size cannot play.
/// Checks world_size before the ranks of calls, so that a wrong size is the first error.
Scenario parse_scenario(std::string_view text, std::optional<int> world_size = std::nullopt);

/// The ranks of a world that plays a document without `world_size`.
inline constexpr int default_world_size = 2;

/// Like `parse_scenario`, for a world of `ranks` ranks. Without `ranks`, of the document's `world_size`, or else of
/// `default_world_size`. The result's `world_size` is that number.
Scenario parse_playable_scenario(std::string_view text, std::optional<int> ranks);

namespace scenario {

/// Returns the position of a call in a text that parse_scenario can read. `call` has the segment, and the index in the
/// expanded body. Without a call, returns the position of the plan.
base::TextPosition position_of_call(std::string_view text, const std::optional<ScriptPlace>& call);

}  // namespace scenario

}  // namespace shardproof
