// What a race is between: the facts that meet, and the memory that they meet in.
#pragma once

#include "harness/shardproof.hpp"

namespace shardproof::suites {

bool is_work(const Fact& fact, WorkKind kind);
bool is_collective(const Fact& fact, CollectiveKind kind);

/// What the buffer holds, by its allocation; `other` where the trace has none.
MemoryClass memory_of(const Trace& trace, std::uint64_t buffer);

/// One side gives memory back, or takes memory that was given back.
bool is_about_release(const trace::Race& race);

}  // namespace shardproof::suites
