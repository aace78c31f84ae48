// Lists the threads of this process. A copy of the process would lack them.
#pragma once

#include <string>
#include <vector>

namespace shardproof::runner {

/// The names of all threads but the calling thread, in the system's order. A thread that is ending is left out: the
/// thread that joined it may still see it for a moment. Empty if the system does not list threads.
std::vector<std::string> other_threads();

}  // namespace shardproof::runner
