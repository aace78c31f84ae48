#include "harness/scenario/generator/parts.hpp"

namespace shardproof::scenario {

namespace {

// The paths of modules that compute. Each is its own piece of work.
std::vector<std::string> computing(const Model& model) {
  std::vector<std::string> paths;
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (!is_container(module.kind) && module.kind != ModuleKind::use) paths.push_back(path);
  });
  return paths;
}

}  // namespace

void draw_costs(Scenario& scenario, Dice& dice, const Palette& palette) {
  CostModel& costs = scenario.costs;
  const std::vector<std::string> groups = scenario.plan.engine.get()->groups(scenario.model);
  const auto some = [&](int most) { return dice.between(1, most) * millisecond; };
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce}) {
    if (!dice.chance(75)) continue;
    costs.collectives[kind].fixed = some(10);
    if (dice.chance(15)) costs.collectives[kind].per_kib = some(3);
    if (dice.chance(15) && !groups.empty()) costs.tagged_collectives[{kind, dice.one_of(groups)}] = some(10);
  }
  if (draws(palette, Ingredient::costs_of_work, dice, 25)) {
    for (const WorkKind kind :
         {WorkKind::forward, WorkKind::backward, WorkKind::copy_in, WorkKind::copy_out, WorkKind::reduce_copy_in}) {
      if (dice.chance(40)) costs.work[kind] = some(3);
    }
    if (dice.chance(40)) {
      const WorkKind kind = dice.chance(50) ? WorkKind::forward : WorkKind::backward;
      costs.labelled_work[{kind, dice.one_of(computing(scenario.model))}] = some(5);
    }
  }
  scenario.device.separate_resources = dice.chance(15);
  scenario.device.single_stream = draws(palette, Feature::serial, dice, 8);
  scenario.device.hide_undeclared_memory = draws(palette, Feature::hidden_memory, dice, 10);
}

}  // namespace shardproof::scenario
