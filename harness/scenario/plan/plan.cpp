#include "harness/scenario/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

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

bool has_group(const Plan& plan, std::string_view name) {
  if (plan.engine.get() == nullptr) return false;
  const std::vector<std::string> groups = plan.engine.get()->groups();
  return std::ranges::find(groups, name) != groups.end();
}

}  // namespace shardproof::scenario
