#include "launcher/run/ranks.hpp"

namespace shardproof::launcher {

std::vector<int> alive(const Ranks& ranks, int size) {
  std::vector<int> living;
  for (int rank = 0; rank < size; ++rank) {
    if (ranks.is_alive(rank)) living.push_back(rank);
  }
  return living;
}

}  // namespace shardproof::launcher
