// Predicates on the parts of a race: the two conflicting facts, and their memory.
#pragma once

#include "harness/shardproof.hpp"

namespace shardproof::suites {

bool is_work(const Fact& fact, WorkKind kind);
bool is_collective(const Fact& fact, CollectiveKind kind);

/// The class of the buffer by its allocation, or `other` if the trace has no allocation.
MemoryClass memory_of(const Trace& trace, std::uint64_t buffer);

/// Whether the earlier side gives memory its first values.
bool is_after_fill(const Trace& trace, const trace::Race& race);

/// Whether one side releases memory, or gets memory that was released.
bool is_about_release(const trace::Race& race);

}  // namespace shardproof::suites
