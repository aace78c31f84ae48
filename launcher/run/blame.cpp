#include "launcher/run/blame.hpp"

#include <algorithm>
#include <iterator>

namespace shardproof::launcher {

std::vector<int> find_culprits(const Stall& stall) {
  if (stall.turn) return {*stall.turn};
  const auto is_busy = [&](int rank) { return !protocol::is_held_up(stall.waits, rank); };
  const auto filtered = [](const std::vector<int>& ranks, const auto& is_guilty) {
    std::vector<int> guilty;
    std::ranges::copy_if(ranks, std::back_inserter(guilty), is_guilty);
    return guilty;
  };
  if (auto absent = filtered(stall.overdue, stall.is_absent); !absent.empty()) return absent;
  if (auto busy = filtered(stall.overdue, is_busy); !busy.empty()) return busy;
  if (auto busy = filtered(stall.alive, is_busy); !busy.empty()) return busy;
  return stall.overdue;
}

}  // namespace shardproof::launcher
