#include "harness/scenario/plan/plan.hpp"
#include "harness/base/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/scenario/scenario.hpp"

namespace shardproof {

std::string_view to_string(Initialisation initialisation) {
  return initialisation == Initialisation::direct ? "direct" : "meta";
}

std::string_view to_string(OptimizerKind kind) {
  return base::name_of<OptimizerKind::adamw>(kind, {"sgd", "adam", "adamw"});
}

void refuse_other_kind(const Plan& plan, std::string_view wanted) {
  const std::string_view kind = plan.engine.kind();
  throw std::invalid_argument(
      fmt::format("scenario: the plan is for {}, not for {}", kind.empty() ? "no engine" : kind, wanted));
}

std::string EngineSection::objection_to_call(const Action& /*action*/) const { return {}; }

std::string objection_to_call_of_groups(std::string_view kind, const Action& action) {
  if (action.by_method) return fmt::format("engines of the kind {} run no methods as forwards", kind);
  switch (action.kind) {
    case ActionKind::set_requires_gradient_sync:
      return action.module.empty()
                 ? std::string()
                 : fmt::format("{} has this switch for the whole model only: leave the module out", kind);
    case ActionKind::post_optim_event:
    case ActionKind::clip_grad_norm:
    case ActionKind::unshard:
    case ActionKind::wait_for_unshard:
    case ActionKind::reshard:
    case ActionKind::set_requires_all_reduce:
    case ActionKind::set_reshard_after_backward:
    case ActionKind::set_unshard_in_backward:
    case ActionKind::set_is_last_backward: return fmt::format("engines of the kind {} have no such call", kind);
    case ActionKind::forward:
    case ActionKind::backward:
    case ActionKind::step:
    case ActionKind::zero_grad:
    case ActionKind::capture:
    case ActionKind::evaluate:
    case ActionKind::extend:
    case ActionKind::materialize:
    case ActionKind::initialize:
    case ActionKind::register_hook: break;
  }
  return {};
}

bool has_group(const Scenario& scenario, std::string_view name) {
  const EngineSection* const section = scenario.plan.engine.get();
  if (section == nullptr) return false;
  const std::vector<std::string> groups = section->groups(scenario.model);
  return std::ranges::find(groups, name) != groups.end();
}

}  // namespace shardproof
