// The parts of a race: the facts that meet, and the memory that they meet in.
#pragma once

#include "harness/shardproof.hpp"

namespace shardproof::suites {

bool is_work(const Fact& fact, WorkKind kind);
bool is_collective(const Fact& fact, CollectiveKind kind);

/// The class of the buffer by its allocation, or `other` if the trace has no allocation.
MemoryClass memory_of(const Trace& trace, std::uint64_t buffer);

/// The earlier side gives memory its first values.
bool is_after_fill(const Trace& trace, const trace::Race& race);

/// One side gives memory back, or takes memory that was given back.
bool is_about_release(const trace::Race& race);

}  // namespace shardproof::suites
