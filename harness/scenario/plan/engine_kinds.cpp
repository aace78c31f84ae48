#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/scenario/plan/engine_section.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/plan/plan.hpp"

namespace shardproof::scenario {

namespace {

const std::vector<EngineKind>& shipped_kinds() {
  static const std::vector<EngineKind> kinds{fully_shard_kind, flat_shard_kind};
  return kinds;
}

// Filled by registrations before main, read-only afterwards; a function's static so that the order of initialisation does not matter.
std::vector<EngineKind>& registry() {
  static std::vector<EngineKind> kinds = shipped_kinds();
  return kinds;
}

}  // namespace

const std::vector<EngineKind>& engine_kinds() { return registry(); }

const EngineKind* find_engine_kind(std::string_view name) {
  const auto found = std::ranges::find(engine_kinds(), name, &EngineKind::name);
  return found == engine_kinds().end() ? nullptr : &*found;
}

EngineKindRegistration::EngineKindRegistration(const EngineKind& kind) {
  std::vector<EngineKind>& kinds = registry();
  const auto own = kinds.begin() + std::ssize(shipped_kinds());
  kinds.insert(std::ranges::upper_bound(own, kinds.end(), kind.name, {}, &EngineKind::name), kind);
}

std::vector<std::string> problems_of_engine_kinds() {
  std::vector<std::string> problems;
  std::set<std::string_view> names;
  for (const EngineKind& kind : engine_kinds()) {
    if (kind.name.empty()) problems.emplace_back("an engine kind is registered without a name");
    if (std::ranges::find(shared_plan_keys, kind.name) != shared_plan_keys.end())
      problems.push_back(fmt::format("engine kind \"{}\": a plan of any kind has a key of this name; choose another name", kind.name));
    if (!names.insert(kind.name).second)
      problems.push_back(fmt::format("engine kind \"{}\" is registered twice; choose another name for one of them", kind.name));
  }
  return problems;
}

}  // namespace shardproof::scenario
