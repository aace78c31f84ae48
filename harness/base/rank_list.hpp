// Lists of ranks for messages.
#pragma once

#include <string>
#include <vector>

namespace shardproof::base {

/// `rank 1`, `ranks 0, 2, 3`, `ranks 0…1023`, `ranks 0…3, 5…9`. The ranks are ascending. A list of more than eight
/// pieces is cut and ends in the number of ranks left out.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace shardproof::base
