// Recorded facts as a Chrome trace, which Perfetto opens: one process per rank, one track per stream, flows from records to waits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "harness/protocol/trace.hpp"

namespace shardproof::reports {

/// The JSON object form, times in microseconds. Work that takes no time appears as an instant; an arrow leads from a piece of work to one
/// that a wait for it held back. Same facts, same text.
nlohmann::ordered_json chrome_trace(std::span<const Trace> ranks);

}  // namespace shardproof::reports
