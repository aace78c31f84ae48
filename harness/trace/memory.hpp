// How much is alive? Buffers and bytes per class, counted in host order. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

struct Live {
  std::uint64_t buffers = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Live&, const Live&) = default;
};

/// The highest counts that a class of memory reaches (each maximum on its own).
Live peak(const Trace& trace, MemoryClass memory);
/// The highest counts between two marks, both included.
Live peak(const Trace& trace, MemoryClass memory, std::string_view from_mark, std::string_view to_mark);
/// What is alive when a mark is set.
Live at(const Trace& trace, MemoryClass memory, std::string_view mark);

}  // namespace shardproof::trace
