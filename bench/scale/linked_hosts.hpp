// A world on many hosts over real sockets of this machine: a Hub, and a PageLink for each host. The ranks are threads.
#pragma once

#include <cstdint>

namespace shardproof::bench {

/// The bytes that one agreement sends over all connections together: the least of several measurements. In a slow
/// measurement, hosts also report that their ranks wait. `hosts` is at least 2.
std::uint64_t bytes_of_real_agreement(int hosts, int ranks_of_each);

}  // namespace shardproof::bench
