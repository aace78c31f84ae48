// The costs of validating the order: collectives and waits of the host.
#pragma once

#include <cstddef>

#include "harness/player/run.hpp"

namespace shardproof::exec_order {

/// All-gathers of an iteration in which ranks compare their order.
std::size_t validating_gathers(const scenario::Run& run, int iteration);

}  // namespace shardproof::exec_order
