// A world on many hosts over real sockets of this machine: a Hub, and a PageLink for each host. The ranks are threads.
#pragma once

#include <cstdint>

namespace shardproof::bench {

/// At least two hosts. The bytes that one agreement sends over all connections together: the least of several measurements. In a slow
/// measurement, hosts also report that their ranks wait.
std::uint64_t bytes_of_real_agreement(int hosts, int ranks_of_each);

}  // namespace shardproof::bench
