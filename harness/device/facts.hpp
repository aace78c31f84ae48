// What every device writes down of what passes through it, in the words of a trace, and what it costs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "harness/device/cost_model.hpp"
#include "harness/device/device.hpp"
#include "harness/protocol/trace.hpp"

namespace shardproof {

/// What the model says of it.
Nanoseconds cost_of(const CostModel& costs, const Collective& collective);
/// What the model says of collectives of one call: as of one that has the tag of the first, and moves the bytes of all.
Nanoseconds cost_of(const CostModel& costs, std::span<const Collective> collectives);
/// What the model says of the work, or of the collectives that it stands for, and the work's own cost on top.
Nanoseconds cost_of(const CostModel& costs, const Work& work);

/// Bytes in buffers of a device; host memory and empty views are nothing that facts speak of.
std::vector<ByteRange> ranges(const std::vector<Tensor>& tensors);

/// Says of the buffer whose allocation is that fact what it holds. Where the trace has been taken away since, there is nothing to alter.
void describe(Trace& trace, std::size_t fact, std::uint64_t buffer, MemoryClass memory, std::string_view label);

/// Notes a fact::Work, or each fact::Collective that the work stands for.
void note(Trace& trace, const Work& work, std::uint32_t stream, Nanoseconds start, Nanoseconds end);
fact::Collective fact_of(const Collective& collective, std::uint32_t stream, std::span<const int> members, std::uint64_t sequence,
                         Nanoseconds start, Nanoseconds end);

}  // namespace shardproof
