// Recorded facts as JSON: `{"rank": 0, "facts": [{"fact": "work", …}, …]}`, one object per fact, ranges as [buffer, offset, length],
// times in nanoseconds. What a rank leaves behind for the exports.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/protocol/trace.hpp"

namespace shardproof {

void to_json(nlohmann::ordered_json& json, const Trace& trace);

/// Throws std::invalid_argument that names the fact, by its place and kind, and the field that is missing or is not what it should be.
void from_json(const nlohmann::ordered_json& json, Trace& trace);

}  // namespace shardproof
