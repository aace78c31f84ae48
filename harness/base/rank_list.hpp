// Ranks as people read them.
#pragma once

#include <string>
#include <vector>

namespace shardproof {

/// `rank 1`, `ranks 0, 2, 3`, `ranks 0…1023`, `ranks 0…3, 5…9`; ascending. What is longer than eight pieces is cut, and says how many more.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace shardproof
