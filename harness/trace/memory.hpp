// Counts live buffers and their bytes per memory class, in host order. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

struct Live {
  std::uint64_t buffers = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Live&, const Live&) = default;
};

/// The highest counts that a class of memory reaches; each maximum is on its own.
Live peak(const Trace& trace, MemoryClass memory);
/// The highest counts between two marks, both included.
Live peak(const Trace& trace, MemoryClass memory, std::string_view from_mark, std::string_view to_mark);
/// The live memory when a mark is set.
Live at(const Trace& trace, MemoryClass memory, std::string_view mark);

/// The buffers that are alive at the end, in the order of their allocation.
std::vector<fact::Allocated> left_alive(const Trace& trace);
/// How many buffers there are, and the first few of them: `1 buffer: parameter "layer" of 64 bytes`.
std::string describe(const std::vector<fact::Allocated>& buffers);

}  // namespace shardproof::trace
