// Worlds whose evidence is all in memory at once, merged in one call: for tests; a launcher takes one stream at a time.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "reports/merge/merger.hpp"

namespace shardproof::reports::testing {

/// All that is left of one world. Streams stand in rank order.
struct WorldRecord {
  WorldPlan plan;
  /// One for every position of the plan for which this world answers. Fewer than the plan has: the rest went to another world.
  std::vector<CaseInfo> cases;
  std::vector<RankStream> streams;
  std::vector<Ending> endings;
};

inline Report merge(RunHead head, std::span<const WorldRecord> worlds) {
  Merger merger(std::move(head));
  for (const auto& world : worlds) {
    merger.open_world(world.plan, world.cases, world.endings);
    for (std::size_t rank = 0; rank < world.streams.size() && std::cmp_less(rank, world.plan.size); ++rank) merger.add(world.streams[rank]);
  }
  return merger.finish();
}

}  // namespace shardproof::reports::testing
