// The threads of this process: what a copy of it would be without.
#pragma once

#include <string>
#include <vector>

namespace shardproof {

/// The names of those that run besides the calling one, in the order of the system. One that is ending is none of them any more: whoever
/// has joined it may still see it for a moment. None where the system does not say.
std::vector<std::string> other_threads();

}  // namespace shardproof
