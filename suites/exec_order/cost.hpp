// The costs of the order validation: collectives and waits of the host.
#pragma once

#include <cstddef>

#include "harness/player/run.hpp"

namespace shardproof::exec_order {

/// The number of all-gathers in an iteration by which ranks compare their order.
std::size_t validating_gathers(const Run& run, int iteration);

}  // namespace shardproof::exec_order
