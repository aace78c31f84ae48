// Checks of the buffers that are alive. A failure names the buffers.
#pragma once

#include <cstdint>
#include <string_view>

#include "harness/scenario/scenario.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

enum class Alive : std::uint8_t { exactly, at_most };

/// One assertion: `expected` buffers of this class, or at most `expected`, are alive at the mark.
void check_alive(const Trace& trace, MemoryClass memory, std::string_view mark, Alive how, std::uint64_t expected);

/// The number of parameters that are in no group and no unit. They are whole all the time, and so are their gradients.
std::uint64_t unsharded_parameters(const Scenario& scenario);

}  // namespace shardproof::suites
