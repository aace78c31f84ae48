// What every device writes down of what passes through it, in the words of a trace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/protocol/trace.hpp"

namespace shardproof {

/// Bytes in buffers of a device; host memory and empty views are nothing that facts speak of.
std::vector<ByteRange> ranges(const std::vector<Tensor>& tensors);

fact::Work fact_of(const Work& work, std::uint32_t stream, Nanoseconds start, Nanoseconds end);
fact::Collective fact_of(const Collective& collective, std::uint32_t stream, std::span<const int> members, std::uint64_t sequence,
                         Nanoseconds start, Nanoseconds end);

}  // namespace shardproof
