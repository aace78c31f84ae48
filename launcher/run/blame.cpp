#include "launcher/run/blame.hpp"

#include <algorithm>
#include <iterator>

namespace shardproof::launcher {

std::vector<int> blamed(const Standstill& standstill) {
  if (standstill.turn) return {*standstill.turn};
  const auto is_busy = [&](int rank) { return !is_held_up(standstill.waits, rank); };
  const auto those = [](const std::vector<int>& ranks, const auto& is_guilty) {
    std::vector<int> guilty;
    std::ranges::copy_if(ranks, std::back_inserter(guilty), is_guilty);
    return guilty;
  };
  if (auto absent = those(standstill.overdue, standstill.is_absent); !absent.empty()) return absent;
  if (auto busy = those(standstill.overdue, is_busy); !busy.empty()) return busy;
  if (auto busy = those(standstill.alive, is_busy); !busy.empty()) return busy;
  return standstill.overdue;
}

}  // namespace shardproof::launcher
