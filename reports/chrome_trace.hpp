// Recorded facts as a Chrome trace, which Perfetto opens: one process per rank, one track per stream, flows from records to waits.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "harness/protocol/trace.hpp"

namespace shardproof::reports {

nlohmann::ordered_json chrome_trace(std::span<const Trace> ranks);

}  // namespace shardproof::reports
