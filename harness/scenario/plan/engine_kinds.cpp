#include <algorithm>

#include "harness/scenario/plan/engine_section.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

namespace shardproof::scenario {

const std::vector<EngineKind>& engine_kinds() {
  static const std::vector<EngineKind> kinds{fully_shard_kind};
  return kinds;
}

const EngineKind* find_engine_kind(std::string_view name) {
  const auto found = std::ranges::find(engine_kinds(), name, &EngineKind::name);
  return found == engine_kinds().end() ? nullptr : &*found;
}

}  // namespace shardproof::scenario
