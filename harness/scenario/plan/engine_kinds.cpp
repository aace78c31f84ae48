#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "harness/scenario/plan/engine_section.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/foreign_section.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/plan/plan.hpp"
#include "harness/scenario/plan/replicate.hpp"

namespace shardproof {

namespace {

const std::vector<EngineKind>& shipped_kinds() {
  static const std::vector<EngineKind> kinds{fully_shard_kind, flat_shard_kind, replicate_kind};
  return kinds;
}

// Registrations fill it before main; afterwards it is read-only. It is a function's static variable, so that the order
// of initialisation does not matter.
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

std::vector<std::string_view> EngineKind::feature_names() const {
  std::vector<std::string_view> names;
  std::ranges::transform(common_features, std::back_inserter(names), &Feature::name);
  std::ranges::transform(own_features, std::back_inserter(names), &Feature::name);
  return names;
}

std::optional<Feature> EngineKind::find_feature(std::string_view feature) const {
  for (const std::span<const Feature> features : {std::span<const Feature>(common_features), own_features}) {
    const auto found = std::ranges::find(features, feature, &Feature::name);
    if (found != features.end()) return *found;
  }
  return std::nullopt;
}

std::set<std::string> names_of_engine_kinds() {
  std::set<std::string> names;
  for (const EngineKind& kind : engine_kinds()) names.emplace(kind.name);
  return names;
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
    if (kind.name == scenario::ForeignSection::name)
      problems.push_back(fmt::format(
          "engine kind \"{}\": the name is reserved for plans without an engine; choose another name", kind.name));
    if (std::ranges::find(shared_plan_keys, kind.name) != shared_plan_keys.end())
      problems.push_back(
          fmt::format("engine kind \"{}\": every plan has a key of this name; choose another name", kind.name));
    if (!names.insert(kind.name).second)
      problems.push_back(
          fmt::format("engine kind \"{}\" is registered twice; choose another name for one of them", kind.name));
    std::set<std::string_view> features;
    for (const std::string_view feature : kind.feature_names()) {
      if (!features.insert(feature).second)
        problems.push_back(fmt::format("engine kind \"{}\" has two features \"{}\"; choose another name for its own",
                                       kind.name, feature));
    }
  }
  return problems;
}

}  // namespace shardproof
