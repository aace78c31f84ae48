#include <algorithm>
#include <functional>

#include "harness/scenario/generator/engine_generator.hpp"

namespace shardproof::scenario {

namespace {

// Whether the module is more than a trained linear layer: another kind, or an option of the module.
bool needs_modules(const Module& module) {
  switch (module.kind) {
    case ModuleKind::scale:
    case ModuleKind::residual:
    case ModuleKind::discard:
    case ModuleKind::list:
    case ModuleKind::choice:
    case ModuleKind::use: return true;
    default: return module.frozen;
  }
}

bool speaks_language(const Scenario& scenario) {
  return scenario.model.loss.kind == LossKind::cross_entropy || any_module(scenario, [](const Module& module) {
           return module.kind == ModuleKind::embedding || module.kind == ModuleKind::layer_norm ||
                  module.kind == ModuleKind::attention;
         });
}

}  // namespace

std::vector<Feature> needed_features(const Scenario& scenario) {
  std::vector<Feature> needed;
  const auto need = [&](Feature feature, bool is_needed) {
    if (is_needed) needed.push_back(feature);
  };
  need(Feature::timeline, any_module(scenario, [](const Module& module) {
         return module.forward_sleep > 0 || module.backward_sleep > 0;
       }));
  need(Feature::serial, scenario.device.single_stream);
  need(Feature::clip_grad_norm,
       any_call(scenario.script, [](const Action& action) { return action.kind == ActionKind::clip_grad_norm; }));
  need(Feature::module_groups, !speaks_language(scenario) && any_module(scenario, needs_modules));
  need(Feature::shared_parameters, any_module(scenario, [](const Module& module) { return !module.tied_to.empty(); }));
  need(Feature::language_model, speaks_language(scenario));
  need(Feature::convolution,
       any_module(scenario, [](const Module& module) { return module.kind == ModuleKind::convolution; }));
  need(Feature::failed_forward,
       any_call(scenario.script, [](const Action& action) { return action.fails_in.has_value(); }));
  need(Feature::all_gather_extensions,
       any_module(scenario, [](const Module& module) { return module.tensor != TensorKind::plain; }) ||
           any_call(scenario.script, [](const Action& action) { return action.kind == ActionKind::extend; }));
  need(Feature::mixed_precision, scenario.plan.mixed_precision != MixedPrecision());
  need(Feature::meta_initialisation, scenario.plan.initialisation == Initialisation::meta);
  need(Feature::truncated_normal, scenario.model.init == Distribution::truncated_normal);
  need(Feature::hidden_memory, scenario.device.hide_undeclared_memory);
  for (const Feature feature : engine_generator(scenario.plan).needed_features(scenario)) {
    if (std::ranges::find(needed, feature) == needed.end()) needed.push_back(feature);
  }
  return needed;
}

}  // namespace shardproof::scenario
