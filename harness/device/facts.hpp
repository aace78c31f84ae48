// Functions that every device uses to record facts in a trace, and to compute their costs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/cost_model.hpp"
#include "harness/device/device.hpp"
#include "harness/protocol/trace.hpp"

namespace shardproof {
class Group;
}

namespace shardproof::device {

/// The collective's cost by the model.
Nanoseconds cost_of(const CostModel& costs, const Collective& collective);
/// The cost of one call by the model: the cost of a collective with the tag of the first and the bytes of all.
Nanoseconds cost_of(const CostModel& costs, std::span<const Collective> collectives);
/// The cost of the work by the model, or the cost of the collectives that it replaces, plus the work's own `cost`.
Nanoseconds cost_of(const CostModel& costs, const Work& work);

/// The bytes of the tensors, by buffer of a device. Facts leave out host memory and empty views.
std::vector<ByteRange> ranges(const std::vector<Tensor>& tensors);

/// Appends a fact::Work, or a fact::Collective for each collective that the work replaces.
void note(Trace& trace, const Work& work, std::uint32_t stream, Nanoseconds start, Nanoseconds end);
fact::Collective fact_of(const Collective& collective, std::uint32_t stream, std::span<const int> members,
                         std::uint64_t sequence, Nanoseconds start, Nanoseconds end);

/// Names a call of a rank in error texts.
std::string text_of_call(std::string_view kind, std::string_view tag, const Group& group, int rank);

}  // namespace shardproof::device
