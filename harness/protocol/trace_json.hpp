// The JSON form of a trace, which a rank writes for the exports: `{"rank": 0, "facts": [{"fact": "work", …}, …]}`. It
// has one object per fact, with ranges as [buffer, offset, length] and times in nanoseconds.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/protocol/trace.hpp"

namespace shardproof {

void to_json(nlohmann::ordered_json& json, const Trace& trace);

/// Throws std::invalid_argument. It names the fact, by its place and kind, and the field that is missing or wrong.
void from_json(const nlohmann::ordered_json& json, Trace& trace);

}  // namespace shardproof
