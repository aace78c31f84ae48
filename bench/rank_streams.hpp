// Writes the directory of a world that never ran, by the functions that ranks use. So many real ranks would
// take too long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/protocol/run_directory.hpp"

namespace shardproof::bench {

/// Each case begins, measures nothing and passes.
void write_run(const protocol::RunDirectory& run, int ranks, int cases);

/// The bytes of the stream of such a rank.
std::uint64_t stream_bytes(int rank, int ranks, const std::vector<std::string>& cases);

}  // namespace shardproof::bench
