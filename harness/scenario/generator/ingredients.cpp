#include "harness/scenario/generator/ingredients.hpp"
#include "harness/base/enum_names.hpp"

#include <algorithm>

namespace shardproof::scenario {

namespace {

bool has_kind(const Scenario& scenario, ModuleKind kind) {
  return any_module(scenario, [kind](const Module& module) { return module.kind == kind; });
}

bool has_several_forwards(const Scenario& scenario) {
  return std::ranges::any_of(scenario.script.segments, [](const Script::Segment& segment) {
    int forwards = 0;
    for (const Action& action : segment.body) {
      if (action.kind == ActionKind::backward) forwards = 0;
      if (action.kind == ActionKind::forward && !action.fails_in) ++forwards;
      if (forwards > 1) return true;
    }
    return false;
  });
}

// Whether a backward adds to gradients that an earlier backward left before a step.
bool keeps_gradients(const Scenario& scenario) {
  bool is_there = false, has_stepped = false;
  for (const Script::Segment& segment : scenario.script.segments) {
    for (int iteration = 0; iteration < std::min(segment.iterations, 2); ++iteration) {
      for (const Action& action : segment.body) {
        if (action.kind == ActionKind::backward && has_stepped) return true;
        if (action.kind == ActionKind::backward) is_there = true;
        if (action.kind == ActionKind::step) has_stepped = is_there;
        if (action.kind == ActionKind::zero_grad) is_there = has_stepped = false;
      }
    }
  }
  return false;
}

bool computes_in_half_precision(const Scenario& scenario) {
  const MixedPrecision& mixed = scenario.plan.mixed_precision;
  if (mixed.param == DType::f16 || mixed.reduce == DType::f16) return true;
  return std::ranges::any_of(parameters(scenario.model), [&](const ParameterShape& parameter) {
    return scenario.plan.engine.get()->dtype_of(parameter.name) == DType::f16;
  });
}

}  // namespace

std::string_view to_string(Ingredient ingredient) {
  return base::name_of<Ingredient::half_precision>(
      ingredient,
      {"residuals", "scales", "frozen_parameters", "unused_modules", "repeated_modules", "evaluation", "adam",
       "costs_of_work", "choices", "several_forwards", "zeroing", "kept_gradients", "half_precision"});
}

bool has(const Scenario& scenario, Ingredient ingredient) {
  const CostModel& costs = scenario.costs;
  switch (ingredient) {
    case Ingredient::residuals: return has_kind(scenario, ModuleKind::residual);
    case Ingredient::scales: return has_kind(scenario, ModuleKind::scale);
    case Ingredient::frozen_parameters: return any_module(scenario, [](const Module& module) { return module.frozen; });
    case Ingredient::unused_modules:
      return has_kind(scenario, ModuleKind::discard) || has_kind(scenario, ModuleKind::list);
    case Ingredient::repeated_modules: return has_kind(scenario, ModuleKind::use);
    case Ingredient::evaluation:
      return any_call(scenario.script, [](const Action& action) { return action.kind == ActionKind::evaluate; });
    case Ingredient::adam: return scenario.plan.optimizer.kind != OptimizerKind::sgd;
    case Ingredient::costs_of_work: return !costs.work.empty() || !costs.labelled_work.empty();
    case Ingredient::choices: return has_kind(scenario, ModuleKind::choice);
    case Ingredient::several_forwards: return has_several_forwards(scenario);
    case Ingredient::zeroing: return any_call(scenario.script, [](const Action& action) { return action.to_zero; });
    case Ingredient::kept_gradients: return keeps_gradients(scenario);
    case Ingredient::half_precision: return computes_in_half_precision(scenario);
  }
  return false;
}

}  // namespace shardproof::scenario
