// Finds the marks of a trace. Inner header.
#pragma once

#include <cstddef>
#include <string_view>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// The index of the first fact, from `begin` on, that sets this mark. Throws std::out_of_range naming a mark that is
/// missing.
std::size_t index_of_mark(const Trace& trace, std::string_view mark, std::size_t begin = 0);

}  // namespace shardproof::trace
