#include "harness/scenario/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

std::string_view to_string(Initialisation initialisation) { return initialisation == Initialisation::direct ? "direct" : "meta"; }

std::string_view to_string(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd: return "sgd";
    case OptimizerKind::adam: return "adam";
    case OptimizerKind::adamw: return "adamw";
  }
  return "unknown";
}

void refuse_other_kind(const Plan& plan, std::string_view wanted) {
  const std::string_view kind = plan.engine.kind();
  throw std::invalid_argument(fmt::format("scenario: the plan is for {}, and not for {}", kind.empty() ? "no engine" : kind, wanted));
}

std::string EngineSection::objection_to_call(const Action& /*action*/) const { return {}; }

bool has_group(const Scenario& scenario, std::string_view name) {
  const EngineSection* const section = scenario.plan.engine.get();
  if (section == nullptr) return false;
  const std::vector<std::string> groups = section->groups(scenario.model);
  return std::ranges::find(groups, name) != groups.end();
}

}  // namespace shardproof::scenario
