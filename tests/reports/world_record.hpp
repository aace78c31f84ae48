// Worlds with all their evidence in memory, merged in one call, for tests. A launcher reads one stream at a time.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "reports/merge/merger.hpp"

namespace shardproof::reports::testing {

/// All evidence of one world. Streams are in rank order.
struct WorldRecord {
  protocol::WorldPlan plan;
  /// One entry for every position of the plan that this world covers. If the plan has more, another world covers the
  /// rest.
  std::vector<protocol::CaseInfo> cases;
  std::vector<RankStream> streams;
  std::vector<protocol::Ending> endings;
};

inline Report merge(RunHead head, std::span<const WorldRecord> worlds) {
  Merger merger(std::move(head));
  for (const auto& world : worlds) {
    merger.open_world(world.plan, world.cases, world.endings);
    for (std::size_t rank = 0; rank < world.streams.size() && std::cmp_less(rank, world.plan.size); ++rank)
      merger.add(world.streams[rank]);
  }
  return merger.finish();
}

}  // namespace shardproof::reports::testing
