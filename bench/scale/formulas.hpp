// Counts of a world of processes on one host that follow from its number of ranks. Tests compare them with real worlds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardproof::bench {

/// All ranks agree that they are of one kind, on both ends of each case, and to leave.
constexpr std::uint64_t agreements_of(std::uint64_t cases) { return 2 + 2 * cases; }

/// A rank writes a line when it starts, at both ends of each case, and when it ends.
constexpr std::uint64_t stream_lines_of(std::uint64_t cases) { return 2 + 2 * cases; }

/// The plan, and for each rank its stream, its output and its errors.
constexpr std::uint64_t files_of_world(int ranks) { return 1 + 3 * static_cast<std::uint64_t>(ranks); }

/// Each rank's process is a descriptor. The others are the poller and the lock of the directory where ranks meet.
constexpr std::size_t launcher_descriptors(int ranks) { return 2 + static_cast<std::size_t>(ranks); }

}  // namespace shardproof::bench
