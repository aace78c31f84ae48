#include <algorithm>

#include "harness/scenario/plan/engine_section.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

namespace shardproof::scenario {

namespace {

std::vector<EngineKind>& registered() {
  static std::vector<EngineKind> kinds{fully_shard_kind};
  return kinds;
}

}  // namespace

const std::vector<EngineKind>& engine_kinds() { return registered(); }

const EngineKind* find_engine_kind(std::string_view name) {
  const auto found = std::ranges::find(registered(), name, &EngineKind::name);
  return found == registered().end() ? nullptr : &*found;
}

RegisterEngineKind::RegisterEngineKind(EngineKind kind) { registered().push_back(kind); }

}  // namespace shardproof::scenario
