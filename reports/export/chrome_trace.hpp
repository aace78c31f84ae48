// Writes recorded facts as a Chrome trace, which Perfetto opens. It has a process for each rank, a track for each
// stream, and flows from records to waits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "harness/protocol/trace.hpp"

namespace shardproof::reports {

/// Uses the JSON object form, with times in microseconds. Work that takes no time appears as an instant. An arrow leads
/// from a piece of work to another piece that waited for it. The same facts give the same text.
nlohmann::ordered_json chrome_trace(std::span<const Trace> ranks);

}  // namespace shardproof::reports
